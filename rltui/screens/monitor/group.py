"""The members of a group side by side: facts above, turns below, locked together or each by itself."""

from __future__ import annotations

import math
from typing import Any, ClassVar

from rich.segment import Segment
from rich.style import Style
from textual import events
from textual.binding import BindingType
from textual.message import Message

from rltui.model.group_view import Group, Member
from rltui.model.member_text import FACTS, Row, facts, turns
from rltui.model.xray import MODES, Xray
from rltui.sources.base import Json
from rltui.text_lines import pad
from rltui.widgets.bindings import bindings
from rltui.widgets.lines import Lines, look_of
from rltui.widgets.token_row import level_sign

LEAST = 25  # cells of a column
Read = tuple[Json | None, Json, Xray | None]  # episode, updates, tokens


class GroupGrid(Lines, inherit_bindings=False):
    """Rows 0 … `facts` stay; below them each column begins at its own top."""

    BINDINGS: ClassVar[list[BindingType]] = bindings("group")

    class Moved(Message):
        """Another member is under the cursor, or another page of them shows."""

    class Opened(Message):
        """The transcript of episode n is wanted."""

        def __init__(self, n: int) -> None:
            super().__init__()
            self.n = n

    def __init__(self) -> None:
        super().__init__(id="group")
        self.group: Group | None = None
        self.read: dict[int, Read] = {}  # by n
        self.mode = "ratio"
        self.locked = True
        self.member = 0  # its place in the group
        self._turn: dict[int, int] = {}  # by place: the turn at the top
        self._more = 0  # rows scrolled beyond it
        self._columns: list[list[Row | list[float]]] = []  # of the members that show
        self._starts: list[list[int]] = []  # the row at which each turn begins, likewise
        self._facts: list[list[Row]] = []

    def show(self, group: Group | None) -> None:
        """Another group, from its top; the same one keeps its place."""
        if group is None or self.group is None or group.group != self.group.group:
            self.member, self._turn, self._more = 0, {}, 0
            self.read = {}
        self.group = group
        self.lay()

    def take(self, n: int, read: Read) -> None:
        """What was recorded of a member."""
        self.read[n] = read
        self.lay()

    # Laying out

    @property
    def members(self) -> tuple[Member, ...]:
        return self.group.members if self.group is not None else ()

    @property
    def per_page(self) -> int:
        return max(1, min(len(self.members), (self.size.width + 1) // (LEAST + 1)))

    @property
    def first(self) -> int:
        """The first member that shows; the last page is as full as the others."""
        return max(0, min(self.member // self.per_page * self.per_page, len(self.members) - self.per_page))

    @property
    def shown(self) -> range:
        return range(self.first, min(len(self.members), self.first + self.per_page))

    @property
    def cells(self) -> int:
        """Of a column, without its rule."""
        return max(1, (self.size.width + 1) // self.per_page - 3)

    def lay(self) -> None:
        """Lay out the members that show."""
        if not self.size.width:
            return
        found, heads = [], []
        for place in self.shown:
            member = self.members[place]
            episode, updates, xray = self.read.get(member.n, (None, None, None))
            heads.append(facts(member, updates, self.cells))
            if member.n in self.read and episode is None:
                found.append([[("its text is gone", "dim")]])
            else:
                found.append(turns(episode, xray, self.mode, self.cells))
        height = min(max(map(len, heads), default=FACTS), FACTS + 3)
        self._facts = [[*head[:height], *[("", "text")] * (height - len(head))] for head in heads]
        most = max((len(each) for each in found), default=0)
        self._columns, self._starts = [], []
        lengths = [max((len(each[t]) for each in found if t < len(each)), default=0) for t in range(most)]
        for each in found:
            column: list[Any] = []
            starts = []
            for t, rows in enumerate(each):
                starts.append(len(column))
                column += rows + [("", "text")] * (lengths[t] - len(rows) if self.locked else 0)
            self._columns.append(column)
            self._starts.append(starts)
        self.line_count = self.size.height
        self.refresh_changed()

    def line(self, y: int, width: int) -> list[Segment]:
        look, segments = look_of(self), list[Segment]()
        height = len(self._facts[0]) if self._facts else 0
        for k, place in enumerate(self.shown):
            if k >= len(self._columns):
                break
            if k:
                segments.append(Segment(look.glyph("vline"), look.style("border")))
            here = place == self.member
            if y < height:
                text, style = self._facts[k][y]
                cell = [Segment(pad(text, self.cells), self._fact_style(style, here and y == 0))]
            elif y == height:
                cell = [Segment(look.glyph("hline") * self.cells, look.style("border"))]
            else:
                cell = self._body(k, place, y - height - 1)
            segments += [Segment(" "), *cell, Segment(" ")]
        return segments

    def _fact_style(self, name: str, here: bool) -> Style:
        look = look_of(self)
        style = look.style(name)
        return style + look.style("selection" if self.has_focus else "selection_idle") if here else style

    def _body(self, k: int, place: int, y: int) -> list[Segment]:
        look, column = look_of(self), self._columns[k]
        at = self._top(k, place) + y
        row: Row | list[float] = column[at] if at < len(column) else ("", "text")
        if isinstance(row, list):
            xray = self.read[self.members[place].n][2]
            assert xray is not None
            kind = "diverging" if self.mode in xray.spread else "sequential"
            signs = [
                Segment(
                    level_sign(look, xray, self.mode, level),
                    look.series(int(level))
                    if self.mode == "version" and not math.isnan(level)
                    else look.gradient(kind, level),
                )
                for level in row
            ]
            fill = self.cells - len(row) - len(self.mode)
            return [*signs, Segment(" " * fill), Segment(self.mode, look.style("dim"))]
        return [Segment(pad(row[0], self.cells), look.style(row[1]))]

    def _top(self, k: int, place: int) -> int:
        turn, starts = self._turn.get(0 if self.locked else place, 0), self._starts[k]
        if self.locked:  # all begin at the same row: the longest one knows it
            starts = max(self._starts, key=len)
        return (starts[min(turn, len(starts) - 1)] if starts else 0) + (self._more if self.locked else 0)

    def on_resize(self, event: events.Resize) -> None:
        self.lay()
        self.post_message(self.Moved())

    def on_focus(self) -> None:
        self.refresh_changed()

    def on_blur(self) -> None:
        self.refresh_changed()

    # Keys

    def _to(self, member: int) -> None:
        page = self.first
        self.member = max(0, min(member, len(self.members) - 1))
        if self.first != page:
            self.lay()
        self.refresh_changed()
        self.post_message(self.Moved())

    def _by_turn(self, way: int) -> None:
        place = 0 if self.locked else self.member
        starts = self._starts[self.member - self.first] if not self.locked else max(self._starts, key=len, default=[])
        self._turn[place] = max(0, min(self._turn.get(place, 0) + way, len(starts) - 1))
        self._more = 0
        self.refresh_changed()

    def _by_page(self, way: int) -> None:
        rows = way * max(1, self.size.height - FACTS - 2)
        longest = max(map(len, self._columns), default=0)
        top = max(0, min(self._top(0, self.first) + rows, longest - 1))
        starts = max(self._starts, key=len, default=[])
        turn = max((t for t, start in enumerate(starts) if start <= top), default=0)
        self._turn[0], self._more = turn, top - (starts[turn] if starts else 0)
        self.refresh_changed()

    def action_previous(self) -> None:
        self._to(self.member - 1)

    def action_next(self) -> None:
        self._to(self.member + 1)

    def action_up(self) -> None:
        self._by_turn(-1)

    def action_down(self) -> None:
        self._by_turn(1)

    def action_page_up(self) -> None:
        self._by_page(-1)

    def action_page_down(self) -> None:
        self._by_page(1)

    def scroll_by(self, lines: int) -> None:
        self._by_turn(1 if lines > 0 else -1)

    def action_lock(self) -> None:
        """Turns go together, or each member's by themselves."""
        self.locked = not self.locked
        self.lay()
        self.post_message(self.Moved())

    def action_color(self) -> None:
        """What the strips show."""
        self.mode = MODES[(MODES.index(self.mode) + 1) % (len(MODES) - 1)]
        self.lay()
        self.post_message(self.Moved())

    def action_open(self) -> None:
        if self.members:
            self.post_message(self.Opened(self.members[self.member].n))
