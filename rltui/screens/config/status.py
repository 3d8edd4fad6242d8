"""The line below the fields: the search, how many fields show, what is wrong, draft and disk."""

from __future__ import annotations

from rich.cells import cell_len

from rltui.text_lines import crop
from rltui.widgets.bar import Bar, Part
from rltui.widgets.lines import look_of

GAP = 3


class StatusLine(Bar):
    def __init__(self) -> None:
        super().__init__(id="status")
        self._said: list[tuple[str, str]] = []

    def say(self, *parts: tuple[str, str]) -> None:
        """(text, style), most important first: what does not fit goes from the end."""
        self._said = [part for part in parts if part[0]]
        self.update_bar()

    def parts(self, width: int) -> list[Part]:
        look, used = look_of(self), 1
        found: list[Part] = [(" ", look.style("dim"))]
        for text, style in self._said:
            if used > 1 and used + GAP + cell_len(text) > width:
                break
            gap = " " * GAP if used > 1 else ""
            text = crop(text, width - used - len(gap), more=look.glyph("ellipsis"))
            found += [(gap, look.style("dim")), (text, look.style(style))]
            used += len(gap) + cell_len(text)
        return found
