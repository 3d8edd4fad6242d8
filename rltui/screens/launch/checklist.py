"""The checks as lines: sign, name, time, sentence; below one that is not well, how to mend it."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, ClassVar

from rich.segment import Segment
from rich.style import Style
from textual import events
from textual.binding import BindingType

from rltui.look import Look
from rltui.preflight.base import took
from rltui.text import clean
from rltui.text_lines import crop, pad, wrap
from rltui.widgets.bindings import bindings
from rltui.widgets.lines import Lines, look_of
from rltui.widgets.pane import Pane

if TYPE_CHECKING:
    from rltui.preflight.base import Check, Result

TITLE, TIME = 11, 8  # cells
INDENT = 1 + 2 + TITLE + TIME + 2
SIGNS = {"ok": ("good", "good"), "warn": ("watch", "watch"), "fail": ("act", "act"), "skipped": ("dot", "dim")}


@dataclass(frozen=True, slots=True)
class Row:
    """A line of the list. check: which one it belongs to. kind: head, text, fix, more."""

    check: int
    kind: str
    text: str


class Checklist(Lines, inherit_bindings=False):
    """`begin` with the checks, then `running` and `ended` as they come."""

    BINDINGS: ClassVar[list[BindingType]] = bindings("list")

    def __init__(self, *, id: str | None = None) -> None:
        super().__init__(id=id)
        self.checks: tuple[Check, ...] = ()
        self.results: dict[str, Result] = {}
        self._looking: set[str] = set()
        self._open: set[str] = set()  # whose details show
        self._rows: list[Row] = []
        self._cursor = 0

    # What comes

    def begin(self, checks: tuple[Check, ...]) -> None:
        """All anew; the cursor stays."""
        self.checks, self.results, self._looking = checks, {}, set()
        self._lay_out()

    def running(self, id: str) -> None:
        self._looking.add(id)
        self._lay_out()

    def ended(self, result: Result) -> None:
        self._looking.discard(result.id)
        self.results[result.id] = result
        self._lay_out()

    @property
    def current(self) -> Result | None:
        """The result under the cursor."""
        return self.results.get(self.checks[self._cursor].id) if self.checks else None

    def point_at(self, id: str) -> None:
        """Put the cursor on a check."""
        self._put(next((i for i, check in enumerate(self.checks) if check.id == id), self._cursor))

    # Lines

    def _lay_out(self) -> None:
        if not self.size.width:
            return
        self._rows = [row for i in range(len(self.checks)) for row in self._rows_of(i)]
        self.line_count = len(self._rows)
        self.refresh_changed()
        self._say_rest()

    def watch_scroll_y(self, old: float, new: float) -> None:
        super().watch_scroll_y(old, new)
        self._say_rest()

    def _say_rest(self) -> None:
        """In the border: how much there is above and below what shows."""
        above, below = self.top, self.line_count - self.top - self.page_size
        told = [f"↑ {above} more"] * (above > 0) + [f"↓ {below} more"] * (below > 0)
        if isinstance(self.parent, Pane):
            self.parent.set_subtitle(", ".join(told))

    def _rows_of(self, i: int) -> list[Row]:
        rows = [Row(i, "head", "")]
        result = self.results.get(self.checks[i].id)
        if result is None:
            return rows
        found, room = result.found, max(20, self.size.width - INDENT - 1)
        told = clean(found.message, 600)
        opened, bad = result.id in self._open, found.verdict in ("warn", "fail")
        if opened or (bad and found.verdict == "fail"):
            rows += [Row(i, "text", line) for line in wrap(told, room)[1:]]
        if found.fix and (opened or bad):
            rows += [Row(i, "fix" if n == 0 else "fix2", line) for n, line in enumerate(_fix(found.fix, room))]
        if opened:
            key = [f"key: {found.key}"] if found.key else []
            tried = [f"tried: {clean(found.tried, 400)}"] if found.tried else []
            more = [*key, *tried, *(clean(note, 300) for note in found.notes)]
            rows += [Row(i, "more", line) for text in more for line in wrap(text, room)]
        return rows

    def line(self, y: int, width: int) -> list[Segment]:
        look, row = look_of(self), self._rows[y]
        if row.kind == "head":
            return self._head(row.check, width, look)
        blank = Segment(" " * INDENT)
        if row.kind == "fix":
            label, _, rest = row.text.partition(" ")
            return [blank, Segment(f"{label} ", look.style("dim")), Segment(rest, look.style("info"))]
        return [blank, Segment(row.text, look.style({"text": "text", "fix2": "info"}.get(row.kind, "dim")))]

    def _head(self, i: int, width: int, look: Look) -> list[Segment]:
        check = self.checks[i]
        result = self.results.get(check.id)
        if result is None:
            on = check.id in self._looking
            sign, word = (look.glyph("state_starting"), "looking") if on else (" ", "")
            style = look.style("info" if on else "dim")
            title = Segment(pad(check.title, TITLE), look.style("text" if on else "dim"))
            return [Segment(f" {sign} ", style), title, Segment(f"{'':{TIME}}  "), Segment(word, look.style("dim"))]
        glyph, name = SIGNS[result.verdict]
        quiet = result.verdict == "skipped"
        room = max(20, width - INDENT - 1)
        told = clean(result.found.message, 600)
        wrapped = result.id in self._open or result.verdict == "fail"
        text = wrap(told, room)[0] if wrapped else crop(told, room, more=look.glyph("ellipsis"))
        return [
            Segment(f" {look.glyph(glyph)} ", look.style(name)),
            Segment(pad(check.title, TITLE), look.style("dim" if quiet else "strong")),
            Segment(f"{'' if quiet else took(result.seconds):>{TIME}}  ", look.style("dim")),
            Segment(text, look.style("dim" if quiet else "act" if result.verdict == "fail" else "text")),
        ]

    def line_style(self, y: int) -> Style | None:
        row = self._rows[y]
        if row.check != self._cursor or row.kind != "head":
            return None
        return look_of(self).style("selection" if self.has_focus else "selection_idle")

    # The cursor

    def _put(self, cursor: int) -> None:
        old, self._cursor = self._cursor, max(0, min(cursor, len(self.checks) - 1))
        lines = self._lines_of(self._cursor)
        if lines:
            self.scroll_line_into_view(lines[-1] if len(lines) <= self.page_size else lines[0])
            self.scroll_line_into_view(lines[0])
        self.refresh_lines([*self._lines_of(old)[:1], *lines[:1]])
        if old != self._cursor:
            self.screen.refresh_bindings()

    def _lines_of(self, check: int) -> list[int]:
        return [y for y, row in enumerate(self._rows) if row.check == check]

    def action_up(self) -> None:
        self._put(self._cursor - 1)

    def action_down(self) -> None:
        self._put(self._cursor + 1)

    def action_page_up(self) -> None:
        self._put(self._cursor - max(1, self.page_size - 1))

    def action_page_down(self) -> None:
        self._put(self._cursor + max(1, self.page_size - 1))

    def action_first(self) -> None:
        self._put(0)

    def action_last(self) -> None:
        self._put(len(self.checks) - 1)

    def toggle_details(self) -> None:
        """Fold or unfold what the check under the cursor found."""
        if self.current is not None:
            self._open ^= {self.current.id}
            self._lay_out()
            self._put(self._cursor)

    def on_resize(self) -> None:
        self._lay_out()
        self._put(self._cursor)

    def on_click(self, event: events.Click) -> None:
        y = self.top + event.y
        if y < len(self._rows):
            self._put(self._rows[y].check)
            if event.chain == 2:
                self.toggle_details()

    def on_focus(self) -> None:
        self.refresh_lines(self._lines_of(self._cursor)[:1])

    def on_blur(self) -> None:
        self.refresh_lines(self._lines_of(self._cursor)[:1])


def _fix(text: str, room: int) -> list[str]:
    return wrap(f"fix: {clean(text, 400)}", room)
