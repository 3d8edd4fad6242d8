"""The sections: a tree whose lines carry how much is wrong in each; on narrow screens one line that says where."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from rich.cells import cell_len
from rich.segment import Segment

from rltui.screens.config.fields import safe
from rltui.text_lines import crop, pad
from rltui.widgets.bar import Bar, Part
from rltui.widgets.lines import look_of
from rltui.widgets.virtual_list import VirtualList

if TYPE_CHECKING:
    from rltui.look import Look
    from rltui.model.form_rows import SectionRows


def badge(section: SectionRows) -> tuple[str, str, str]:
    """(sign, count, style): the worst of a section; nothing where all is well."""
    counts = {str(state): count for state, count in section.counts.items()}
    for sign, states, style in (
        ("!", ("wrong", "unknown"), "act"),
        ("^", ("moved",), "watch"),
        ("~", ("changed",), "accent"),
    ):
        count = sum(counts.get(state, 0) for state in states)
        if count:
            return sign, f"{count}{sign}", style
    return " ", "", "text"


class SectionTree:
    """The source of the list of sections."""

    def __init__(self) -> None:
        self.sections: Sequence[SectionRows] = ()

    def __len__(self) -> int:
        return len(self.sections)

    def key(self, i: int) -> str:
        return self.sections[i].name

    def cells(self, i: int, width: int, look: Look) -> list[Segment]:
        section = self.sections[i]
        _, count, style = badge(section)
        name = section.name
        indent = "  " * name.count(".")
        shown = indent + name.rpartition(".")[2]
        room = width - 2 - cell_len(count)
        text = pad(crop(safe(shown), room - 1, more=look.glyph("ellipsis")), room)
        return [Segment(f" {text}", look.style("text")), Segment(count, look.style(style))]


class SectionList(VirtualList):
    def __init__(self) -> None:
        self.source = SectionTree()
        super().__init__(self.source, id="sections")


class Crumb(Bar):
    """Where the fields are, where there is no room for the tree."""

    def __init__(self) -> None:
        super().__init__(id="crumb")
        self._said: list[tuple[str, str]] = []

    def say(self, parts: list[tuple[str, str]]) -> None:
        """(text, style) in order."""
        self._said = parts
        self.update_bar()

    def parts(self, width: int) -> list[Part]:
        look = look_of(self)
        return [(text, look.style(style)) for text, style in self._said]
