"""The evaluation seeds as lines of a list: the mean reward of each in every run, or over the evaluations of one run."""

from __future__ import annotations

from collections.abc import Hashable, Sequence
from typing import TYPE_CHECKING, ClassVar, NamedTuple

from rich.segment import Segment
from textual.binding import BindingType
from textual.message import Message

from rltui.model.compare import Comparison, Seed
from rltui.model.paired import SAME
from rltui.screens.compare.episodes import Side
from rltui.screens.runs_line import reward
from rltui.text import ELLIPSIS, clean, width
from rltui.widgets.bindings import bindings
from rltui.widgets.lines import Lines, look_of
from rltui.widgets.virtual_list import VirtualList

if TYPE_CHECKING:
    from rltui.look.look import Look

SEED, LEAST, MOST = 6, 8, 16  # cells of the seed, and of each column


class Heading(NamedTuple):
    """One column: its words, and the run whose colour and marker it has (None: none)."""

    words: str
    run: int | None = None


def table(comparison: Comparison, over: int | None) -> tuple[list[Seed], list[Heading], int]:
    """Rows, columns, and the column that the others are measured against. `over`: the run whose evaluations are the
    columns; None: the runs are."""
    if over is None:
        headings = [Heading(name, i) for i, name in enumerate(comparison.names)]
        return comparison.seeds(), headings, comparison.baseline
    played = comparison.over_time(over)
    seeds = sorted({seed for one in played for seed in one.rewards})
    rows = [Seed(seed, tuple(one.rewards.get(seed) for one in played)) for seed in seeds]
    return rows, [Heading(f"step {one.step}") for one in played], 0


def sides(comparison: Comparison, over: int | None, seed: int) -> list[Side]:
    """The episodes of a seed, one for each column of the table."""
    if over is not None:
        return [Side(over, f"step {one.step}", one.seeds.get(seed, ())) for one in comparison.over_time(over)]
    found = zip(comparison.names, comparison.evaluations(), strict=True)
    return [
        Side(i, name if one is None else f"{name}  step {one.step}", one.seeds.get(seed, ()) if one is not None else ())
        for i, (name, one) in enumerate(found)
    ]


class SeedRows:
    """Row source of the list; `base` is the column that the others are measured against."""

    def __init__(self) -> None:
        self.headings: Sequence[Heading] = ()
        self._rows: list[Seed] = []
        self.base = 0
        self.by_difference = True

    def update(self, rows: Sequence[Seed], headings: Sequence[Heading], base: int) -> None:
        self.headings, self.base = headings, base
        self._rows = sorted(rows, key=lambda row: row.seed)
        if self.by_difference:
            self._rows.sort(key=lambda row: -row.difference(base))

    def __len__(self) -> int:
        return len(self._rows)

    def row(self, i: int) -> Seed:
        return self._rows[i]

    def key(self, i: int) -> Hashable:
        return self._rows[i].seed

    def columns(self, room: int) -> tuple[list[int], int]:
        """(the columns that fit: the base and the last ones; the cells of each)."""
        total = len(self.headings)
        count = max(1, min(total, (room - SEED - 3) // (LEAST + 2)))
        shown = list(range(total))[-count:] if count else []
        if shown and self.base not in shown:
            shown[0] = self.base
        return shown, min(MOST, (room - SEED - 3) // count - 2)

    def cells(self, i: int, room: int, look: Look) -> list[Segment]:
        row = self._rows[i]
        shown, cells = self.columns(room)
        parts = [Segment(f" {row.seed:>{SEED}}", look.style("dim"))]
        base = row.rewards[self.base] if self.base < len(row.rewards) else None
        for at in shown:
            value = row.rewards[at]
            sign, style = " ", "text"
            if value is not None and base is not None and at != self.base and abs(value - base) > SAME:
                sign, style = (look.glyph("up"), "good") if value > base else (look.glyph("down"), "act")
            known = "text" if value is not None else "dim"
            parts.append(Segment(f"  {reward(value).rstrip():>{cells - 2}} ", look.style(known)))
            parts.append(Segment(sign, look.style(style)))
        return parts


class SeedHead(Lines, can_focus=False):
    """The names of the columns."""

    def __init__(self, rows: SeedRows) -> None:
        super().__init__()
        self._rows = rows

    def on_mount(self) -> None:
        self.line_count = 1

    def line(self, y: int, room: int) -> list[Segment]:
        look = look_of(self)
        shown, cells = self._rows.columns(room)
        parts = [Segment(f" {'seed':>{SEED}}", look.style("dim"))]
        for heading in (self._rows.headings[at] for at in shown):
            words = _end(heading.words, cells if heading.run is None else cells - 2)
            if heading.run is None:
                parts.append(Segment(f"  {words:>{cells}}", look.style("dim")))
                continue
            parts.append(Segment(f"  {'':{cells - 2 - width(words)}}"))
            parts.append(Segment(f"{look.marker(heading.run)} ", look.series(heading.run)))
            parts.append(Segment(words, look.style("dim")))
        return parts


def _end(words: str, cells: int) -> str:
    """The end of a name that is too long: there runs of one label differ."""
    words = clean(words, 200)
    while width(words) > cells:
        words = words[2:] if words.startswith(ELLIPSIS) else words[1:]
        words = f"{ELLIPSIS}{words}"
    return words


class SeedList(VirtualList, inherit_bindings=False):
    """What a person wants done is for the screen."""

    BINDINGS: ClassVar[list[BindingType]] = bindings("seeds")

    class Wanted(Message):
        """`what` is the name of an action of the context seeds."""

        def __init__(self, what: str) -> None:
            super().__init__()
            self.what = what

    def action_sort(self) -> None:
        """By another order."""
        self.post_message(self.Wanted("sort"))

    def action_checkpoints(self) -> None:
        """Over the evaluations of a run, or over the runs."""
        self.post_message(self.Wanted("checkpoints"))
