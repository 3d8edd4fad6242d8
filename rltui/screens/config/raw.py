"""The text of a config that is no TOML, with the place where the parser stopped."""

from __future__ import annotations

from rich.segment import Segment
from rich.style import Style

from rltui.text_lines import printable
from rltui.widgets.lines import Lines, look_of

MOST_CHARS = 500  # of a line


class RawText(Lines):
    def __init__(self) -> None:
        super().__init__(id="raw")
        self._lines: list[str] = []
        self._at, self._column = 0, 1

    def show(self, text: str, line: int, column: int) -> None:
        """`line` and `column` count from 1."""
        self._lines = text.split("\n")
        self._at, self._column = line - 1, column
        self.line_count = len(self._lines)
        self.call_after_refresh(self._into_view)

    def _into_view(self) -> None:
        self.scroll_line_into_view(self._at)
        self.refresh()

    def line(self, y: int, width: int) -> list[Segment]:
        look = look_of(self)
        digits = len(str(len(self._lines)))
        here = y == self._at
        text = printable(self._lines[y][:MOST_CHARS])
        head = Segment(f" {'!' if here else ' '} {y + 1:>{digits}} ", look.style("act" if here else "dim"))
        at = self._column - 1
        if not here or at > len(text):
            return [head, Segment(text, look.style("text"))]
        return [
            head,
            Segment(text[:at], look.style("text")),
            Segment(text[at : at + 1] or " ", look.style("match")),
            Segment(text[at + 1 :], look.style("text")),
        ]

    def line_style(self, y: int) -> Style | None:
        return look_of(self).style("selection_idle") if y == self._at else None
