"""What stands around the members of a group: the list of groups, the rewards as bins, two members word by word."""

from __future__ import annotations

from typing import TYPE_CHECKING, ClassVar

from rich.segment import Segment
from textual.binding import BindingType

from rltui.model.episode_list import Bin
from rltui.model.group_view import Group
from rltui.model.word_diff import Piece, episode_diff
from rltui.sources.base import Json
from rltui.text_lines import PIECE, crop, pad, printable, wrap
from rltui.widgets.anchored import Anchored
from rltui.widgets.bindings import bindings
from rltui.widgets.lines import Lines, look_of

if TYPE_CHECKING:
    from rltui.look import Look

_STYLES = {"same": "text", "first": "act", "second": "good", "head": "title"}
_SIGNS = {"same": ("", ""), "first": ("[-", "-]"), "second": ("{+", "+}"), "head": ("", "")}


class GroupRows:
    """Row source of the groups of an iteration."""

    def __init__(self, groups: list[Group]) -> None:
        self.groups = groups

    def __len__(self) -> int:
        return len(self.groups)

    def key(self, i: int) -> int:
        return self.groups[i].group

    def cells(self, i: int, width: int, look: Look) -> list[Segment]:
        group, style = self.groups[i], look.style
        mean = "-" if group.mean is None else f"{group.mean:.2f}"
        std = "ZERO" if group.dead else "-" if group.std is None else f"{group.std:.2f}"
        length = "-" if group.length is None else f"{group.length:.0f}"
        left = any(member.row.get("excl") is not None for member in group.members)
        return [
            Segment(f" {group.seed if group.seed is not None else '-':>7} {mean:>6} ", style("text")),
            Segment(f"{std:>5}", style("watch" if group.dead else "text")),
            Segment(f" {length:>6}", style("dim")),
            Segment(" !" if left else "  ", style("watch")),
        ]


class GroupHead(Lines, can_focus=False):
    """The names of the columns."""

    DEFAULT_CSS = "GroupHead { height: 1; }"

    def on_mount(self) -> None:
        self.line_count = 1

    def line(self, y: int, width: int) -> list[Segment]:
        return [Segment(f" {'seed':>7} {'mean':>6} {'std':>5} {'tokens':>6}", look_of(self).style("dim"))]


class BinRows:
    """Row source of a histogram."""

    def __init__(self, bins: list[Bin]) -> None:
        self.bins = bins

    def __len__(self) -> int:
        return len(self.bins)

    def cells(self, i: int, width: int, look: Look) -> list[Segment]:
        found = self.bins[i]
        names = max(len(each.name) for each in self.bins)
        most = max(each.count for each in self.bins) or 1
        count = f" {found.count}"
        room = max(1, width - names - 2 - max(len(f" {each.count}") for each in self.bins) - 1)
        bar = max(1, round(room * found.count / most)) if found.count else 0
        return [
            Segment(f" {found.name:>{names}} ", look.style("text")),
            Segment(look.glyph("bar_full") * bar, look.series(0)),
            Segment(count, look.style("dim")),
        ]


class MemberDiff(Anchored, inherit_bindings=False):
    """Two episodes word by word; [-what only the first has-] {+what only the second has+}."""

    BINDINGS: ClassVar[list[BindingType]] = bindings("list")

    def __init__(self) -> None:
        super().__init__(id="member-diff")
        self._lines: list[tuple[str, list[tuple[int, int, str]]]] = []

    def show(self, first: Json, second: Json) -> None:
        """Compare, from the top."""
        self._lines = [_line(pieces) for pieces in episode_diff(first, second)]
        self.cursor = self.window.top = (0, 0)
        self.window.forget()
        self.repaint(all=True)

    def item_count(self) -> int:
        return len(self._lines)

    def lay_out(self, item: int, width: int) -> list[str]:
        text, parts = self._lines[item]
        if parts and parts[0][2] == "head":
            return [crop(f"{text} " + look_of(self).glyph("hline") * width, width, more="")]
        return wrap(text, width, words=False)

    def row_segments(self, item: int, row: int, text: str, width: int) -> list[Segment]:
        look = look_of(self)
        parts = self._lines[item][1]
        start = sum(map(len, self.window.rows(item)[:row]))
        if parts and parts[0][2] == "head":
            return [Segment(text, look.style("title"))]
        found = [
            Segment(text[max(0, a - start) : b - start], look.style(_STYLES[kind]))
            for a, b, kind in parts
            if a < start + len(text) and b > start
        ]
        return found or [Segment(pad("", width))]


def _line(pieces: list[Piece]) -> tuple[str, list[tuple[int, int, str]]]:
    text, parts = "", []
    for kind, raw in pieces:
        before, after = _SIGNS[kind]
        shown = before + printable(raw[:PIECE]) + after
        parts.append((len(text), len(text) + len(shown), kind))
        text += shown
    return text, parts
