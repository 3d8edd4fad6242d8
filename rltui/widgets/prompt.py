"""One line at the bottom of a pane to type a filter or a search into."""

from __future__ import annotations

from collections.abc import Sequence
from typing import ClassVar

from textual import on
from textual.app import ComposeResult
from textual.binding import Binding, BindingType
from textual.containers import Horizontal
from textual.content import Content
from textual.message import Message
from textual.style import Style
from textual.suggester import SuggestFromList
from textual.widgets import Input, Static

from rltui.text import clean
from rltui.text_lines import printable
from rltui.widgets.bindings import bindings
from rltui.widgets.lines import focus_now, look_of


class _Line(Input, inherit_bindings=False):
    """Enter is the prompt's, so that it can be another key and shows among the keys that work."""

    BINDINGS: ClassVar[list[BindingType]] = [
        binding for binding in Input.BINDINGS if not (isinstance(binding, Binding) and binding.key == "enter")
    ]


class Prompt(Horizontal):
    """Hidden until `open`. What was typed is still there at the next `open`, after escape too."""

    DEFAULT_CSS = """
    Prompt { height: 1; width: 1fr; display: none; }
    Prompt.-open { display: block; }
    Prompt > Static { width: auto; height: 1; padding: 0 1 0 0; }
    Prompt > .prompt--note { padding: 0 0 0 1; max-width: 60%; }
    Prompt > Input, Prompt > Input:focus {
        width: 1fr; height: 1; border: none; padding: 0; background: transparent; background-tint: transparent;
    }
    """
    BINDINGS: ClassVar[list[BindingType]] = bindings("prompt")

    class Event(Message):
        """Something happened to the line; `value` is the whole text."""

        def __init__(self, prompt: Prompt, value: str) -> None:
            super().__init__()
            self.prompt, self.value = prompt, value

        @property
        def control(self) -> Prompt:
            """The prompt, for `@on` with a selector."""
            return self.prompt

    # Siblings: `@on` of a message also takes its subclasses.
    class Changed(Event):
        """A key was typed."""

    class Submitted(Event):
        """Enter."""

    class Cancelled(Event):
        """Escape."""

    def __init__(self, label: str, *, placeholder: str = "", id: str | None = None) -> None:
        super().__init__(id=id)
        self._label = label
        self._placeholder = placeholder
        self._input: Input | None = None
        self._note = ""
        self.before = ""  # what stood in the line when it was opened

    def compose(self) -> ComposeResult:
        """Label, input, note."""
        yield Static(classes="prompt--label")
        self._input = _Line(placeholder=clean(self._placeholder), compact=True, select_on_focus=False)
        self._input.cursor_blink = False
        yield self._input
        yield Static(classes="prompt--note")

    @property
    def value(self) -> str:
        """What stands in the line."""
        return self._input.value if self._input is not None else ""

    @value.setter
    def value(self, value: str) -> None:
        if self._input is not None:
            with self._input.prevent(Input.Changed):
                self._input.value = value
            self._input.cursor_position = len(value)

    @property
    def is_open(self) -> bool:
        """Whether the line shows."""
        return self.has_class("-open")

    def open(self, value: str | None = None) -> None:
        """Show the line and put the keys into it; `value` replaces what was typed before."""
        if value is not None:
            self.value = value
        self.before = self.value
        self.add_class("-open")
        self._dress()
        if self._input is not None:
            focus_now(self._input)

    def close(self) -> None:
        """Hide the line; whoever opened it takes the focus back."""
        self.remove_class("-open")

    def suggest(self, words: Sequence[str]) -> None:
        """The rest of the first of `words` that begins as the line does shows behind it; `right` takes it."""
        if self._input is not None:
            self._input.suggester = SuggestFromList(words)

    def set_note(self, note: str, style: str = "dim") -> None:
        """At the right: a count, or what is wrong with what was typed (`style` watch)."""
        self._note = printable(clean(note))
        look = look_of(self)
        self.query_one(".prompt--note", Static).update(
            Content.styled(self._note, Style.from_rich_style(look.style(style)))
        )

    def _dress(self) -> None:
        key = Style.from_rich_style(look_of(self).style("key"))
        self.query_one(".prompt--label", Static).update(Content.styled(printable(clean(self._label)), key))

    def action_accept(self) -> None:
        """Enter, or the key that stands for it."""
        self.post_message(self.Submitted(self, self.value))

    def action_cancel(self) -> None:
        """Escape."""
        self.close()
        self.post_message(self.Cancelled(self, self.value))

    @on(Input.Changed)
    def _changed(self, event: Input.Changed) -> None:
        event.stop()
        self.post_message(self.Changed(self, event.value))
