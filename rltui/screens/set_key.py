"""The line for `KEY VALUE` when a live key of a running run is to be set."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Callable

from textual import on
from textual.app import ComposeResult
from textual.content import Content
from textual.screen import ModalScreen
from textual.style import Style
from textual.widgets import Static

from rltui.model.live_values import assignments, live_values
from rltui.sources.base import Json
from rltui.text import clean
from rltui.text_lines import printable
from rltui.widgets.lines import look_of
from rltui.widgets.pane import Pane
from rltui.widgets.prompt import Prompt


class SetScreen(ModalScreen[Json | None], inherit_bindings=False):
    """Dismissed with the values by full key, None for escape. What is no live key says so below the line."""

    DEFAULT_CSS = """
    SetScreen { align: center middle; background: transparent; }
    SetScreen > Pane { width: 86; max-width: 96%; height: auto; background: $background; }
    SetScreen > Pane > Static { height: auto; padding: 0 1; }
    """

    def __init__(self, name: str, now: Callable[[str], object]) -> None:
        """`now`: the value in force of a key; None where it is not known."""
        super().__init__()
        self._name, self._now = name, now
        self._told = False  # whether what is wrong was said

    def compose(self) -> ComposeResult:
        """The line in a box, with room for what is wrong with it."""
        prompt = Prompt("set", placeholder="KEY VALUE   for example learning_rate 1e-5")
        yield Pane(prompt, Static(id="problem"), title=f"Set a key of {clean(self._name, 50)}")

    def on_mount(self) -> None:
        """The line has the keys."""
        self.query_one(Pane).set_subtitle("right completes a key, enter asks the run, esc changes nothing")
        self.query_one(Prompt).open()
        self.run_worker(self._tell_keys(), exit_on_error=False)  # a hint is no reason to end, nor is it missed

    async def _tell_keys(self) -> None:
        """Which keys there are and what they are now, before anything is typed. It takes a while the first time."""
        from trainer.config.differ import live_keys

        keys = await asyncio.to_thread(live_keys)
        if not self._told:
            self._tell(f"live: {', '.join(self._with_value(key) for key in keys)}", "dim")
        self.query_one(Prompt).suggest([*(key.rpartition(".")[2] for key in keys), *keys])

    def _with_value(self, key: str) -> str:
        value = self._now(key)
        return key if value is None else f"{key} = {json.dumps(value)}"

    def _tell(self, text: str, style: str) -> None:
        shown = Content.styled(printable(clean(text, 900)), Style.from_rich_style(look_of(self).style(style)))
        self.query_one("#problem", Static).update(shown)

    @on(Prompt.Submitted)
    async def _asked(self, event: Prompt.Submitted) -> None:
        try:
            values = await asyncio.to_thread(live_values, assignments(event.value))
        except ValueError as error:
            self._told = True
            self._tell(str(error), "watch")
            return
        self.dismiss(values)

    @on(Prompt.Cancelled)
    def _cancelled(self) -> None:
        self.dismiss(None)
