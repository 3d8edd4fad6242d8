"""What keeps every colour code away from a terminal that wants none."""

from __future__ import annotations

from rich.segment import Segment
from textual.color import Color
from textual.filter import LineFilter


class Colorless(LineFilter):
    """Leaves attributes only; the framework's own filter sends the default colours with each text."""

    def apply(self, segments: list[Segment], background: Color) -> list[Segment]:
        return [Segment(text, style.without_color if style else style, control) for text, style, control in segments]
