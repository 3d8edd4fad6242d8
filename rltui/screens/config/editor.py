"""The one line to type a value in; it lies over the value of the field that is edited."""

from __future__ import annotations

import asyncio
import os
from pathlib import Path
from typing import ClassVar

from textual import events, on
from textual.binding import Binding, BindingType
from textual.message import Message
from textual.suggester import Suggester
from textual.widgets import Input

from rltui.widgets.bindings import bindings
from rltui.widgets.lines import focus_now

MOST_NAMES = 2_000  # of a folder


class Completion(Suggester):
    """The rest of a path, or of one of `choices`; `right` takes it."""

    def __init__(self, choices: tuple[str, ...], paths: bool) -> None:
        super().__init__(use_cache=False, case_sensitive=True)
        self._choices, self._paths = choices, paths

    async def get_suggestion(self, value: str) -> str | None:
        if not value:
            return None
        found = next((choice for choice in self._choices if choice.startswith(value) and choice != value), None)
        if found is None and (self._paths or value.startswith(("/", "./", "../", "~"))) and "://" not in value:
            found = await asyncio.to_thread(completed, value)
        return found


def completed(text: str) -> str | None:
    """The first name of the folder that begins so, with a slash where it is a folder itself."""
    head, slash, tail = text.rpartition("/")
    folder = Path(f"{head}{slash}" or ".").expanduser()
    try:
        with os.scandir(folder) as entries:
            names = sorted(
                entry.name + ("/" if entry.is_dir() else "")
                for _, entry in zip(range(MOST_NAMES), entries, strict=False)
                if entry.name.startswith(tail) and not (entry.name.startswith(".") and not tail.startswith("."))
            )
    except OSError:
        return None
    found = next((name for name in names if name.rstrip("/") != tail), None)
    return f"{head}{slash}{found}" if found and found.isprintable() else None


class FieldEditor(Input, inherit_bindings=False):
    """Hidden until `open`. Enter is ours, so that it can be another key and shows among the keys that work."""

    BINDINGS: ClassVar[list[BindingType]] = [
        *bindings("field"),
        *(one for one in Input.BINDINGS if not (isinstance(one, Binding) and one.key == "enter")),
    ]
    DEFAULT_CSS = """
    FieldEditor, FieldEditor:focus {
        position: absolute; display: none; height: 1; border: none; padding: 0; background: $surface;
        background-tint: transparent;
    }
    FieldEditor.-open { display: block; }
    """

    class Done(Message):
        """`go`: 1 the next field, -1 the one before, 0 stay."""

        def __init__(self, value: str, go: int) -> None:
            super().__init__()
            self.value, self.go = value, go

    class Restored(Message):
        """Escape."""

    class Typed(Message):
        """A key was typed."""

        def __init__(self, value: str) -> None:
            super().__init__()
            self.value = value

    def __init__(self) -> None:
        super().__init__(compact=True, select_on_focus=False, id="editor")
        self.cursor_blink = False

    @property
    def is_open(self) -> bool:
        return self.has_class("-open")

    def open(self, place: tuple[int, int, int], value: str, *, choices: tuple[str, ...] = (), paths: bool) -> None:
        """`place`: (x, y, cells) in the pane."""
        x, y, cells = place
        with self.prevent(Input.Changed):
            self.value = value
        self.suggester = Completion(choices, paths)
        self.cursor_position = len(value)
        self.styles.offset = (x, y)
        self.styles.width = cells
        self.add_class("-open")
        focus_now(self)

    def close(self) -> None:
        self.remove_class("-open")

    @on(Input.Changed)
    def _changed(self, event: Input.Changed) -> None:
        event.stop()
        if self.is_open:
            self.post_message(self.Typed(event.value))

    async def on_key(self, event: events.Key) -> None:
        """Keys with an action act now: by way of the app they would come after letters that arrived with them."""
        bound = self.screen.active_bindings.get(event.key)
        if bound is not None and bound.node is self and bound.enabled:
            event.stop()
            event.prevent_default()
            await self.run_action(bound.binding.action)

    def action_accept(self) -> None:
        self.post_message(self.Done(self.value, 0))

    def action_next(self) -> None:
        self.post_message(self.Done(self.value, 1))

    def action_previous(self) -> None:
        self.post_message(self.Done(self.value, -1))

    def action_restore(self) -> None:
        self.post_message(self.Restored())
