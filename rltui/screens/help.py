"""`?`: the keys that work where the focus is, nearest first, with a paragraph on each place."""

from __future__ import annotations

from collections.abc import Sequence
from typing import ClassVar

from rich.segment import Segment
from textual.app import ComposeResult
from textual.binding import BindingType
from textual.screen import Screen

from rltui.actions.guide import Section, lines, sections, topic_sections
from rltui.screens.dialog import Dialog, answer
from rltui.widgets.bindings import bindings, keymap_of, offered
from rltui.widgets.lines import focus_now, look_of
from rltui.widgets.pane import Pane
from rltui.widgets.scrolling import Scrolling

WIDEST = 96  # cells; longer lines are hard to read


def help_sections(screen: Screen) -> list[Section]:
    """The help on what has the focus, then the screen, then everywhere, then the topics. Ask before it opens."""
    offers = offered(screen)
    contexts = list(dict.fromkeys(offer.action.context for offer in offers))
    ids = {offer.action.id for offer in offers}
    ascii = bool(getattr(getattr(screen.app, "look", None), "ascii", False))
    found = sections(contexts, keymap_of(screen.app), only=ids, ascii=ascii)
    return [*found, *topic_sections()]


class _Text(Scrolling, inherit_bindings=False):
    BINDINGS: ClassVar[list[BindingType]] = bindings("help")

    def __init__(self, found: Sequence[Section]) -> None:
        super().__init__()
        self._found = found
        self._lines: list[tuple[str, str, str]] = []

    def on_resize(self) -> None:
        self._lines = lines(self._found, self.size.width - 2)
        self.line_count = len(self._lines)
        self.refresh()

    def line(self, y: int, width: int) -> list[Segment]:
        look = look_of(self)
        kind, left, right = self._lines[y]
        if kind == "title":
            return [Segment(f" {left}", look.style("title"))]
        if kind == "key":
            return [Segment(f"   {left}", look.style("key")), Segment(right, look.style("text"))]
        return [Segment(f"   {left}", look.style("dim"))]

    def action_close(self) -> None:
        answer(self)


class HelpScreen(Dialog[None], inherit_bindings=False):
    """`found`: what `help_sections` gave for the screen below."""

    DEFAULT_CSS = """
    HelpScreen { align: center middle; background: transparent; }
    HelpScreen > Pane { max-width: 96%; height: 90%; background: $background; }
    """

    def __init__(self, found: Sequence[Section]) -> None:
        super().__init__()
        self._text = _Text(found)

    def compose(self) -> ComposeResult:
        """One text."""
        yield Pane(self._text, title="Help")

    def opened(self) -> None:
        """The text has the keys."""
        pane = self.query_one(Pane)
        pane.styles.width = WIDEST + 2
        pane.set_subtitle("esc closes")
        focus_now(self._text)
