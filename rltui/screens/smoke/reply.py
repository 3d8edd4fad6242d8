"""Where a person types the reply to a call: the tools that are offered, what is wrong with the line, the line."""

from __future__ import annotations

from typing import ClassVar

from rich.segment import Segment
from textual import on
from textual.app import ComposeResult
from textual.binding import BindingType
from textual.containers import Vertical
from textual.message import Message

from rltui.cli.smoke_person import signature
from rltui.smoke.completing import complete
from rltui.smoke.policies.base import Call, functions_of
from rltui.smoke.policies.person import GIVE_UP
from rltui.text import clean
from rltui.text_lines import crop, printable, wrap
from rltui.widgets.bindings import bindings
from rltui.widgets.lines import Lines, focus_now, look_of
from rltui.widgets.prompt import Prompt

MOST_TOOLS = 4  # lines


class Hints(Lines, can_focus=False):
    """What can be typed."""

    def __init__(self) -> None:
        super().__init__()
        self._said: list[tuple[str, str]] = []  # (style, text)
        self._rows: list[tuple[str, str]] = []

    def say(self, said: list[tuple[str, str]]) -> None:
        self._said = said
        self._lay_out()

    def on_resize(self) -> None:
        self._lay_out()

    def _lay_out(self) -> None:
        room = max(20, self.size.width - 2)
        self._rows = [(style, row) for style, text in self._said for row in wrap(text, room)[:2]]
        self.line_count = len(self._rows)
        self.styles.height = len(self._rows)
        self.refresh()

    def line(self, y: int, width: int) -> list[Segment]:
        style, text = self._rows[y]
        look = look_of(self)
        return [Segment(f" {crop(text, width - 2, more=look.glyph('ellipsis'))}", look.style(style))]


class ReplyLine(Prompt, inherit_bindings=False):
    """Escape leaves the line and keeps it."""

    BINDINGS: ClassVar[list[BindingType]] = bindings("reply")

    class Complete(Message):
        """Tab."""

    def action_send(self) -> None:
        self.post_message(self.Submitted(self, self.value))

    def action_complete(self) -> None:
        self.post_message(self.Complete())

    def action_leave(self) -> None:
        self.post_message(self.Cancelled(self, self.value))


class Reply(Vertical):
    """Shows while a call waits for a person."""

    DEFAULT_CSS = """
    Reply { height: auto; display: none; }
    Reply.-open { display: block; }
    Reply Hints { height: 1; }
    Reply ReplyLine { padding: 0 1; }
    """

    class Sent(Message):
        def __init__(self, line: str) -> None:
            super().__init__()
            self.line = line

    class Left(Message):
        """Escape: the keys go back to the episode."""

    def __init__(self) -> None:
        super().__init__()
        self._call: Call | None = None
        self._problem: str | None = None

    def compose(self) -> ComposeResult:
        yield Hints()
        yield ReplyLine("reply", placeholder=f"text or an action; {GIVE_UP} ends it")

    @property
    def is_open(self) -> bool:
        return self._call is not None

    def ask(self, call: Call, problem: str | None) -> None:
        """Show the line for this call, and put the keys into it. problem: of the line before, which stays."""
        self._call, self._problem = call, problem
        self.add_class("-open")
        self._hint()
        self.query_one(ReplyLine).open(None if problem is not None else "")

    def close(self) -> None:
        """Nobody is asked."""
        self._call = None
        self.remove_class("-open")
        self.query_one(ReplyLine).close()

    def focus_line(self) -> None:
        focus_now(self.query_one(ReplyLine).query_one("Input"))

    def _hint(self, options: tuple[str, ...] = ()) -> None:
        assert self._call is not None
        said = [("watch", clean(self._problem, 300))] if self._problem is not None else []
        if options:
            said.append(("key", clean(", ".join(options), 300)))
        functions = functions_of(self._call.tools)
        said += [("dim", signature(function)) for function in functions[:MOST_TOOLS]]
        if len(functions) > MOST_TOOLS:
            said.append(("dim", f"and {len(functions) - MOST_TOOLS} tools more: tab lists them"))
        self.query_one(Hints).say([(style, printable(text)) for style, text in said])

    @on(ReplyLine.Complete)
    def _complete(self, event: ReplyLine.Complete) -> None:
        event.stop()
        if self._call is not None:
            prompt = self.query_one(ReplyLine)
            found = complete(prompt.value, self._call.tools)
            if found.line != prompt.value:
                prompt.value = found.line
            self._hint(found.options)

    @on(Prompt.Submitted)
    def _sent(self, event: Prompt.Submitted) -> None:
        event.stop()
        if self._call is not None and event.value.strip():
            self.post_message(self.Sent(event.value))

    @on(Prompt.Cancelled)
    def _left(self, event: Prompt.Cancelled) -> None:
        event.stop()
        self.post_message(self.Left())
