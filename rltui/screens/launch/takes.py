"""What the run would take: each number, and below it the sum that it comes from."""

from __future__ import annotations

from typing import TYPE_CHECKING

from rich.segment import Segment

from rltui.text import clean
from rltui.text_lines import crop, wrap
from rltui.widgets.lines import Lines, look_of

if TYPE_CHECKING:
    from rltui.model.estimates import Line

LABEL = 11


class Takes(Lines, can_focus=False):
    """Sums are left out from the last one on, where there is no room for all."""

    def __init__(self) -> None:
        super().__init__()
        self._lines: list[Line] = []
        self._instead = ""
        self._rows: list[tuple[str, str, str]] = []  # label, text, style of the text

    def show(self, lines: list[Line], instead: str = "") -> None:
        """`instead`: a sentence for where there are none."""
        self._lines, self._instead = lines, instead
        self._lay_out()

    def on_resize(self) -> None:
        self._lay_out()

    def _lay_out(self) -> None:
        if not self.size.width:
            return
        room = max(12, self.size.width - LABEL - 2)
        sums = [wrap(clean(line.sum, 400), room) for line in self._lines]
        left = self.size.height - len(self._lines)
        rows: list[tuple[str, str, str]] = []
        if not self._lines and self._instead:
            rows = [("", text, "dim") for text in wrap(self._instead, room)]
        for line, lines in zip(self._lines, sums, strict=True):
            rows.append((line.label, clean(line.text, 200), "strong"))
            if len(lines) <= left:
                left -= len(lines)
                rows += [("", text, "dim") for text in lines]
        self._rows = rows
        self.line_count = len(rows)
        self.refresh_changed()

    def line(self, y: int, width: int) -> list[Segment]:
        look = look_of(self)
        label, text, style = self._rows[y]
        cut = crop(text, width - LABEL - 1, more=look.glyph("ellipsis"))
        return [Segment(f" {label:<{LABEL - 1}}", look.style("dim")), Segment(cut, look.style(style))]
