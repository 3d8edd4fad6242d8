"""What stands in place of content: why there is none, and what can be done."""

from __future__ import annotations

from rich.segment import Segment

from rltui.text import clean
from rltui.text_lines import wrap
from rltui.widgets.lines import Lines, look_of

_INDENT = 3


class Instead(Lines, can_focus=False):
    """Its place is laid out by whoever shows it."""

    def __init__(self, *said: tuple[str, str]) -> None:
        super().__init__()
        self._said: tuple[tuple[str, str], ...] = said
        self._rows: list[tuple[str, str]] = []  # wrapped

    def say(self, *lines: tuple[str, str]) -> None:
        """(text, style) of each line."""
        if lines != self._said:
            self._said = lines
            self._lay_out()

    def on_resize(self) -> None:
        self._lay_out()

    def _lay_out(self) -> None:
        room = max(20, self.size.width - _INDENT - 2)
        self._rows = [(row, style) for text, style in self._said for row in wrap(clean(text, 1000), room)]
        self.line_count = len(self._rows)
        self.refresh()

    def line(self, y: int, width: int) -> list[Segment]:
        text, style = self._rows[y]
        return [Segment(" " * _INDENT + text, look_of(self).style(style))]
