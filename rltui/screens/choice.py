"""A question over the screen, with its answers below each other."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import ClassVar

from rich.segment import Segment
from rich.style import Style
from textual import events
from textual.app import ComposeResult
from textual.binding import BindingType

from rltui.screens.dialog import Dialog, answer
from rltui.text import clean, fit, width
from rltui.text_lines import wrap
from rltui.widgets.bindings import bindings
from rltui.widgets.lines import Lines, focus_now, look_of
from rltui.widgets.pane import Pane

WIDEST = 84  # cells inside


@dataclass(frozen=True)
class Choice:
    """`about`: what it does or costs. `why_not`: the reason for which it cannot be taken."""

    value: str
    label: str
    about: str = ""
    why_not: str = ""


class _Choices(Lines, inherit_bindings=False):
    BINDINGS: ClassVar[list[BindingType]] = bindings("choice")

    def __init__(self, intro: Sequence[str], choices: Sequence[Choice], cursor: int) -> None:
        super().__init__()
        self._intro, self._choices = [clean(line, 300) for line in intro], list(choices)
        self._cursor = cursor
        self._label = max((width(choice.label) for choice in choices), default=0)

    def on_mount(self) -> None:
        self.line_count = self._first + len(self._choices)

    @property
    def _first(self) -> int:
        """The line of the first choice."""
        return len(self._intro) + bool(self._intro)

    def fit_into(self, cells: int) -> None:
        """Wrap what stands above the choices."""
        self._intro = [line for text in self._intro for line in wrap(text, cells - 2)]
        self.line_count = self._first + len(self._choices)

    @property
    def cells(self) -> int:
        """What its widest line needs."""
        lines = [width(line) for line in self._intro]
        lines += [self._label + 6 + width(choice.why_not or choice.about) for choice in self._choices]
        return max(lines, default=0) + 2

    def line(self, y: int, width: int) -> list[Segment]:
        look = look_of(self)
        if y < self._first:
            return [Segment(" " + self._intro[y] if y < len(self._intro) else "", look.style("text"))]
        choice = self._choices[y - self._first]
        mark = look.glyph("cursor") if y - self._first == self._cursor else " "
        missing = bool(choice.why_not)
        return [
            Segment(f" {mark} ", look.style("accent")),
            Segment(f"{choice.label:<{self._label}}   ", look.style("dim" if missing else "strong")),
            Segment(fit(choice.why_not or choice.about, width - self._label - 7), look.style("dim")),
        ]

    def line_style(self, y: int) -> Style | None:
        return look_of(self).style("selection") if y - self._first == self._cursor else None

    def _put(self, cursor: int) -> None:
        old, self._cursor = self._cursor, max(0, min(cursor, len(self._choices) - 1))
        self.scroll_line_into_view(self._cursor + self._first)
        self.refresh_lines((old + self._first, self._cursor + self._first))

    def action_up(self) -> None:
        self._put(self._cursor - 1)

    def action_down(self) -> None:
        self._put(self._cursor + 1)

    def action_cancel(self) -> None:
        answer(self)

    def action_take(self) -> None:
        choice = self._choices[self._cursor]
        if not choice.why_not:
            answer(self, choice.value)

    def on_click(self, event: events.Click) -> None:
        row = event.y + self.top - self._first
        if 0 <= row < len(self._choices):
            self._put(row)
            if event.chain == 2:
                self.action_take()


class ChoiceScreen(Dialog[str | None], inherit_bindings=False):
    """Dismissed with the value that was chosen, None for escape."""

    DEFAULT_CSS = """
    ChoiceScreen { align: center middle; background: transparent; }
    ChoiceScreen > Pane { max-height: 96%; background: $background; }
    """

    def __init__(self, title: str, choices: Sequence[Choice], *, intro: Sequence[str] = (), cursor: int = 0) -> None:
        super().__init__()
        self._title = title
        self._choices = _Choices(intro, choices, cursor)

    def compose(self) -> ComposeResult:
        yield Pane(self._choices, title=self._title)

    def opened(self) -> None:
        focus_now(self._choices)
        pane = self.query_one(Pane)
        pane.set_subtitle("enter takes it, esc changes nothing")
        room = min(WIDEST, self.app.size.width - 2)
        cells = min(max(self._choices.cells, width(self._title) + 6, 41), room)
        self._choices.fit_into(cells)
        pane.styles.width = cells + 2
        pane.styles.height = self._choices.line_count + 2
