"""A question that is answered by a letter. Nothing is chosen beforehand: enter does nothing, escape cancels."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import ClassVar

from rich.cells import cell_len
from rich.segment import Segment
from textual import events
from textual.app import ComposeResult
from textual.binding import BindingType

from rltui.screens.dialog import Dialog, answer
from rltui.text import clean
from rltui.text_lines import crop, printable
from rltui.widgets.bindings import bindings
from rltui.widgets.lines import Lines, focus_now, look_of
from rltui.widgets.pane import Pane

WIDEST, NARROWEST = 84, 34  # cells inside


@dataclass(frozen=True, slots=True)
class Answer:
    """`letter`: the key that gives it. `about`: what it does or costs. `danger`: something is lost by it."""

    letter: str
    value: str
    about: str
    danger: bool = False


class _Question(Lines, inherit_bindings=False):
    BINDINGS: ClassVar[list[BindingType]] = bindings("choice")

    def __init__(self, intro: Sequence[str], answers: Sequence[Answer]) -> None:
        super().__init__()
        self.intro, self.answers = [printable(clean(line, 300)) for line in intro], list(answers)

    def on_mount(self) -> None:
        self.line_count = len(self.intro) + 1 + len(self.answers) + 1

    @property
    def cells(self) -> int:
        """What its widest line needs."""
        return (
            max(map(cell_len, [*self.intro, *(f"   {item.letter}  {item.about}" for item in self.answers)]), default=0)
            + 2
        )

    def line(self, y: int, width: int) -> list[Segment]:
        look = look_of(self)
        more = look.glyph("ellipsis")
        if y < len(self.intro):
            return [Segment(f" {crop(self.intro[y], width - 2, more=more)}", look.style("text"))]
        number = y - len(self.intro) - 1
        if number < 0:
            return []
        if number == len(self.answers):
            return [Segment(" esc", look.style("key")), Segment("  changes nothing", look.style("dim"))]
        item = self.answers[number]
        return [
            Segment(f"   {item.letter}", look.style("key")),
            Segment(
                f"  {crop(printable(clean(item.about, 200)), width - 8, more=more)}",
                look.style("act" if item.danger else "text"),
            ),
        ]

    def on_key(self, event: events.Key) -> None:
        if not self.is_attached:
            return
        # Bindings are looked at later than this: a letter typed right after escape would be taken before it.
        bound = self.screen.active_bindings.get(event.key)
        if bound is not None and bound.node is self and bound.binding.action == "cancel":
            event.stop()
            self.action_cancel()
            return
        for item in self.answers:
            if event.character == item.letter:
                event.stop()
                answer(self, item.value)
                return

    def action_cancel(self) -> None:
        answer(self)


class ConfirmScreen(Dialog["str | None"], inherit_bindings=False):
    """Dismissed with the value of the answer, None for escape. Every line is plain text."""

    DEFAULT_CSS = """
    ConfirmScreen { align: center middle; background: transparent; }
    ConfirmScreen > Pane { max-width: 96%; background: $background; }
    """

    def __init__(self, title: str, intro: Sequence[str], answers: Sequence[Answer]) -> None:
        super().__init__()
        self._title = title
        self._question = _Question(intro, answers)

    def compose(self) -> ComposeResult:
        """The question in a box of its size."""
        yield Pane(self._question, title=self._title)

    def opened(self) -> None:
        """The question has the keys."""
        pane = self.query_one(Pane)
        pane.styles.width = min(max(self._question.cells, cell_len(self._title) + 6, NARROWEST), WIDEST) + 2
        pane.styles.height = self._question.line_count + 2
        focus_now(self._question)
