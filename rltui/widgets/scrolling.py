"""Lines that are read, not chosen from: the keys of a list move the view."""

from __future__ import annotations

from typing import ClassVar

from textual.binding import BindingType

from rltui.widgets.bindings import bindings
from rltui.widgets.lines import Lines


class Scrolling(Lines, inherit_bindings=False):
    BINDINGS: ClassVar[list[BindingType]] = bindings("list")

    def action_up(self) -> None:
        self.scroll_to_top(self.top - 1)

    def action_down(self) -> None:
        self.scroll_to_top(self.top + 1)

    def action_page_up(self) -> None:
        self.scroll_to_top(self.top - max(1, self.page_size - 1))

    def action_page_down(self) -> None:
        self.scroll_to_top(self.top + max(1, self.page_size - 1))

    def action_first(self) -> None:
        self.scroll_to_top(0)

    def action_last(self) -> None:
        self.scroll_to_top(self.line_count)
