"""A list or a table over several lines: an item a line, or lines of TOML. What is wrong with it stands below."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import ClassVar

from textual import on
from textual.app import ComposeResult
from textual.binding import BindingType
from textual.content import Content
from textual.style import Style
from textual.widgets import Static, TextArea

from rltui.screens.dialog import Dialog, answer
from rltui.text import clean
from rltui.text_lines import printable
from rltui.widgets.bindings import bindings
from rltui.widgets.lines import focus_now, look_of
from rltui.widgets.pane import Pane

Judge = Callable[[str], str]  # of the text, what is wrong with it; "" for nothing. It is called in a thread.
MOST_ROWS = 16


class _Area(TextArea, inherit_bindings=False):
    BINDINGS: ClassVar[list[BindingType]] = [*bindings("text"), *TextArea.BINDINGS]

    def action_accept(self) -> None:
        assert isinstance(self.screen, TextScreen)
        self.screen.accept()

    def action_restore(self) -> None:
        answer(self)


class TextScreen(Dialog["str | None"], inherit_bindings=False):
    """Dismissed with the text, None for escape. A text that `judge` finds no value in is not taken."""

    DEFAULT_CSS = """
    TextScreen { align: center middle; background: transparent; }
    TextScreen > Pane { width: 76; max-width: 96%; height: auto; background: $background; }
    TextScreen TextArea, TextScreen TextArea:focus {
        border: none; padding: 0 1; background: transparent; height: 8; width: 1fr;
    }
    TextScreen Static { height: auto; max-height: 4; padding: 0 1; }
    """

    def __init__(self, title: str, text: str, hint: str, judge: Judge) -> None:
        super().__init__()
        self._title, self._text, self._hint, self._judge = title, text, hint, judge
        self._asked = 0

    def compose(self) -> ComposeResult:
        """The text, and what is wrong with it."""
        area = _Area(self._text, soft_wrap=False, tab_behavior="focus", show_line_numbers=False, compact=True)
        area.cursor_blink = False
        area.styles.height = max(3, min(MOST_ROWS, self._text.count("\n") + 3))
        yield Pane(area, Static(id="wrong"), title=self._title)

    def opened(self) -> None:
        """The end of the text has the cursor."""
        area = self.query_one(_Area)
        self.query_one(Pane).set_subtitle("tab takes it, esc leaves it as it was")
        self._say(self._hint, "dim")
        focus_now(area)
        area.move_cursor(area.document.end)

    @on(TextArea.Changed)
    async def _changed(self, event: TextArea.Changed) -> None:
        event.stop()
        self._asked = number = self._asked + 1
        wrong = await asyncio.to_thread(self._judge, event.text_area.text)
        if number == self._asked and self.is_attached:
            self._say(wrong or self._hint, "watch" if wrong else "dim")

    def accept(self) -> None:
        """Take the text, if it is a value."""
        text = self.query_one(_Area).text
        wrong = self._judge(text)
        if wrong:
            self._say(wrong, "act")
        else:
            self.dismiss(text)

    def _say(self, text: str, style: str) -> None:
        said = Content.styled(printable(clean(text, 400)), Style.from_rich_style(look_of(self).style(style)))
        self.query_one("#wrong", Static).update(said)
