"""Text that is laid out for the width it has: rows of styled parts, of which only those that changed are repainted."""

from __future__ import annotations

from collections.abc import Callable
from typing import ClassVar

from rich.segment import Segment
from rich.style import Style
from textual.binding import BindingType
from textual.message import Message

from rltui.look import Look
from rltui.widgets.bindings import bindings
from rltui.widgets.lines import Lines, look_of

Row = list[tuple[str, str]]  # parts: text, name of a style
Draw = Callable[[int, Look], list[Row]]


class Drawn(Lines, inherit_bindings=False):
    """`show` sets what draws the rows in so many cells."""

    BINDINGS: ClassVar[list[BindingType]] = bindings("list")

    class Moved(Message):
        """Other rows than before are in view."""

        def __init__(self, drawn: Drawn) -> None:
            super().__init__()
            self.drawn = drawn

        @property
        def control(self) -> Drawn:
            return self.drawn

    def __init__(self, *, id: str | None = None) -> None:
        super().__init__(id=id)
        self._draw: Draw = lambda width, look: []
        self._rows: list[Row] = []
        self._shown = (0, 0)

    def show(self, draw: Draw) -> None:
        self._draw = draw
        self._lay_out()

    def on_resize(self) -> None:
        self._lay_out()

    def _lay_out(self) -> None:
        if not self.is_mounted or not self.size.width:
            return
        self._rows = self._draw(self.size.width, look_of(self))
        self.line_count = len(self._rows)
        self.refresh_changed()
        self._tell()

    def watch_scroll_y(self, old_value: float, new_value: float) -> None:
        super().watch_scroll_y(old_value, new_value)
        self._tell()

    def _tell(self) -> None:
        shown = (self.top, min(self.top + self.page_size, self.line_count))
        if shown != self._shown:
            self._shown = shown
            self.post_message(self.Moved(self))

    @property
    def shown(self) -> tuple[int, int]:
        """The rows [first, last) that are in view."""
        return self._shown

    def line(self, y: int, width: int) -> list[Segment]:
        look = look_of(self)
        return [Segment(text, _style(look, style)) for text, style in self._rows[y]] if y < len(self._rows) else []

    def action_up(self) -> None:
        self.scroll_by(-1)

    def action_down(self) -> None:
        self.scroll_by(1)

    def action_page_up(self) -> None:
        self.scroll_by(1 - self.page_size)

    def action_page_down(self) -> None:
        self.scroll_by(self.page_size - 1)

    def action_first(self) -> None:
        self.scroll_to_top(0)

    def action_last(self) -> None:
        self.scroll_to_top(self.line_count)


def _style(look: Look, name: str) -> Style:
    """A name of the look, or "series N"."""
    kind, _, number = name.partition(" ")
    return look.series(int(number)) if kind == "series" else look.style(name)
