"""The list of the Metrics tab: headings of groups, and under each its metrics with their newest value; and what a
person chose of it: a filter, pins, folded groups."""

from __future__ import annotations

import contextlib
import math
from collections.abc import Hashable, Sequence
from typing import TYPE_CHECKING, Any

from rich.segment import Segment

from rltui.charts.numbers import number
from rltui.model.find import Finder, FindError
from rltui.model.metric_view import PINNED, Row, rows
from rltui.model.metrics import MetricStore
from rltui.text import fit, width

if TYPE_CHECKING:
    from rltui.look.look import Look

MOST_PINS = 100


class MetricRows:
    """Row source of a list."""

    def __init__(self) -> None:
        self.pins: list[str] = []
        self.text = ""  # of the filter
        self._finder: Finder | None = None
        self._folded: frozenset[str] = frozenset()
        self._rows: Sequence[Row] = ()
        self._store = MetricStore()

    # What a person chooses; `update` shows it

    def filter(self, text: str) -> None:
        """Keep the names that have this regular expression; "": all. FindError: it is none, and nothing changed."""
        self._finder, self.text = Finder(text, regex=True) if text else None, text

    def pin(self, name: str) -> None:
        """Pin it, or let go of it."""
        self.pins = [one for one in self.pins if one != name] if name in self.pins else [*self.pins, name][-MOST_PINS:]

    def fold(self, group: str) -> None:
        """Fold it, or open it."""
        self._folded ^= {group}

    def show_all(self) -> None:
        """No filter, nothing folded."""
        self.filter("")
        self._folded = frozenset()

    def place(self) -> dict[str, Any]:
        """What is to be remembered."""
        return {"filter": self.text, "pins": self.pins, "folded": sorted(self._folded)}

    def restore(self, place: dict[str, Any]) -> None:
        """Values may be of any type."""
        self.pins = _texts(place.get("pins"))[:MOST_PINS]
        self._folded = frozenset(_texts(place.get("folded")))
        text = place.get("filter")
        with contextlib.suppress(FindError):
            self.filter(text if isinstance(text, str) else "")

    # The rows

    def update(self, store: MetricStore) -> None:
        """The rows of these metrics. FindError: the expression takes too long; the rows stay."""
        self._rows = rows(store.names(), self.pins, self._folded, self._finder)
        self._store = store

    @property
    def kept(self) -> int:
        """Metrics that the filter keeps, those of folded groups too."""
        return sum(row.count for row in self._rows)

    @property
    def names(self) -> list[str]:
        """Of the metrics that are listed, in their order."""
        return [row.name for row in self._rows if row.name]

    def heading(self, i: int) -> str:
        """The group whose heading row i is; "" for a metric."""
        return self._rows[i].group if i < len(self._rows) and not self._rows[i].name else ""

    def name_at(self, i: int) -> str:
        """The metric of row i; of a heading, the first one below it; "" where there is none."""
        return next((row.name for row in self._rows[i:] if row.name), "")

    def index_of(self, name: str) -> int | None:
        """The row of a metric."""
        return next((i for i, row in enumerate(self._rows) if row.name == name), None)

    def __len__(self) -> int:
        return len(self._rows)

    def key(self, i: int) -> Hashable:
        return self._rows[i].name or f"\0{self._rows[i].group}"

    def cells(self, i: int, width_: int, look: Look) -> list[Segment]:
        row = self._rows[i]
        if not row.name:
            folded = row.group in self._folded
            count = f"{row.count} "
            head = f" {look.glyph('fold_closed' if folded else 'fold_open')} {row.group}"
            gap = " " * max(0, width_ - width(head) - len(count))
            return [Segment(head, look.style("strong")), Segment(gap + count, look.style("dim"))]
        value = self._store.latest.get(row.name)
        text = "-" if value is None else number(value)
        style = "watch" if value is not None and not math.isfinite(value) else "text"
        name = row.name if row.group == PINNED else row.name.partition("/")[2] or row.name
        room = max(0, width_ - 5 - len(text))
        name = fit(name, room)
        head = f"   {name}{' ' * (room - width(name))} "
        return [Segment(head, look.style("text")), Segment(f"{text} ", look.style(style))]


def _texts(value: object) -> list[str]:
    return [item for item in value if isinstance(item, str)] if isinstance(value, list) else []
