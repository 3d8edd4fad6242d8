"""One line to type into, in a box of its own; what is wrong with it says so below the line."""

from __future__ import annotations

from collections.abc import Callable
from typing import Generic, TypeVar

from textual import on
from textual.app import ComposeResult
from textual.content import Content
from textual.screen import ModalScreen
from textual.style import Style
from textual.widgets import Static

from rltui.text import clean
from rltui.text_lines import printable
from rltui.widgets.lines import look_of
from rltui.widgets.pane import Pane
from rltui.widgets.prompt import Prompt

T = TypeVar("T")


class AskScreen(ModalScreen[T | None], Generic[T], inherit_bindings=False):
    """Dismissed with what `read` makes of the line, None for escape. `read` raises ValueError with the reason."""

    DEFAULT_CSS = """
    AskScreen { align: center middle; background: transparent; }
    AskScreen > Pane { width: 72; max-width: 96%; height: auto; background: $background; }
    AskScreen > Pane > Static { height: auto; padding: 0 1; }
    """

    def __init__(self, title: str, label: str, placeholder: str, read: Callable[[str], T]) -> None:
        super().__init__()
        self._title, self._label, self._placeholder, self._read_ = title, label, placeholder, read

    def compose(self) -> ComposeResult:
        """The line, with room for what is wrong with it."""
        yield Pane(Prompt(self._label, placeholder=self._placeholder), Static(id="problem"), title=self._title)

    def on_mount(self) -> None:
        """The line has the keys."""
        self.query_one(Pane).set_subtitle("enter goes there, esc leaves")
        self.query_one(Prompt).open()

    @on(Prompt.Submitted)
    def _given(self, event: Prompt.Submitted) -> None:
        try:
            value = self._read_(event.value)
        except ValueError as error:
            style = Style.from_rich_style(look_of(self).style("watch"))
            self.query_one("#problem", Static).update(Content.styled(printable(clean(str(error), 300)), style))
            return
        self.dismiss(value)

    @on(Prompt.Cancelled)
    def _cancelled(self) -> None:
        self.dismiss(None)
