"""The configs beside each other as lines of a list: a key, then its values with the markers of the runs that have each;
below them the metrics that some run does not have."""

from __future__ import annotations

from collections.abc import Hashable, Sequence
from typing import TYPE_CHECKING, NamedTuple

from rich.segment import Segment

from rltui.cli.config.values import origin_text
from rltui.model.compare import Missing
from rltui.model.config_diff import Key
from rltui.text import clean, fit, width

if TYPE_CHECKING:
    from rltui.look.look import Look

KEY_MOST = 36  # cells of the keys where values stand beside them
_INDENT = 3


class Row(NamedTuple):
    """A key (value -1), one of its values, or a word of the metrics."""

    key: Key | None
    value: int = -1
    missing: Missing | None = None
    heading: str = ""


class ConfigRows:
    """Row source of the list."""

    def __init__(self) -> None:
        self._rows: list[Row] = []
        self._runs = 0

    def update(self, keys: Sequence[Key], missing: Sequence[Missing], runs: int) -> None:
        """`keys` are those to show."""
        self._runs = runs
        rows: list[Row] = []
        for key in keys:
            rows.append(Row(key))
            if key.differs:
                rows += [Row(key, i) for i in range(len(key.values))]
        if missing:
            rows += [*([Row(None)] if rows else []), Row(None, heading=f"{len(missing)} metrics are missing in")]
            rows += [Row(None, missing=one) for one in missing]
        self._rows = rows

    def __len__(self) -> int:
        return len(self._rows)

    def row(self, i: int) -> Row:
        return self._rows[i]

    def key(self, i: int) -> Hashable:
        row = self._rows[i]
        return row.key.name if row.key is not None else "", row.value, row.missing and row.missing.name, row.heading

    def cells(self, i: int, room: int, look: Look) -> list[Segment]:
        row, style = self._rows[i], look.style
        if row.missing is not None:
            return [*self._markers(row.missing.runs, look), Segment(fit(row.missing.name, room), style("text"))]
        if row.key is None:
            return [Segment(f" {row.heading}", style("dim"))]
        name = clean(row.key.name, 200)
        if row.value >= 0:
            return self._value(row.key, row.value, room, look)
        if row.key.differs:
            return [Segment(f" {fit(name, room - 1)}", style("strong"))]
        cells = min(KEY_MOST, room // 2)
        shown = fit(name, cells)
        value = fit(clean(row.key.values[0].text, 300), max(0, room - cells - 3))
        return [Segment(f" {shown}{' ' * (cells - width(shown))}  ", style("dim")), Segment(value, style("text"))]

    def _value(self, key: Key, at: int, room: int, look: Look) -> list[Segment]:
        value = key.values[at]
        left = room - _INDENT - self._runs - 2
        origin = clean(origin_text(value.leaf), 200) if value.leaf is not None else ""
        text = fit(clean(value.text, 300), left)
        if left - width(text) < width(origin) + 3:
            origin = ""
        gap = " " * (left - width(text) - width(origin) - 1) if origin else ""
        style = "text" if value.leaf is not None else "dim"
        return [
            *self._markers(value.runs, look),
            Segment(text, look.style(style)),
            Segment(gap + origin, look.style("dim")),
        ]

    def _markers(self, runs: Sequence[int], look: Look) -> list[Segment]:
        found = [Segment(" " * _INDENT)]
        for run in range(self._runs):
            found.append(Segment(look.marker(run), look.series(run)) if run in runs else Segment(" "))
        return [*found, Segment("  ")]
