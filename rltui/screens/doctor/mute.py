"""The line for the reason when a rule is muted."""

from __future__ import annotations

from textual import on
from textual.app import ComposeResult

from rltui.screens.dialog import Dialog
from rltui.widgets.pane import Pane
from rltui.widgets.prompt import Prompt


class MuteScreen(Dialog[str | None], inherit_bindings=False):
    """Dismissed with the reason, None for escape. Without a reason nothing is muted."""

    DEFAULT_CSS = """
    MuteScreen { align: center middle; background: transparent; }
    MuteScreen > Pane { width: 78; max-width: 96%; height: 3; background: $background; }
    """

    def __init__(self, rule: str) -> None:
        super().__init__()
        self._rule = rule

    def compose(self) -> ComposeResult:
        """The line in a box."""
        yield Pane(Prompt("because", placeholder="it is expected in this run"), title=f"Mute {self._rule} in this run")

    def opened(self) -> None:
        """The line has the keys."""
        self.query_one(Pane).set_subtitle("enter mutes it, esc changes nothing")
        self.query_one(Prompt).open()

    @on(Prompt.Submitted)
    def _given(self, event: Prompt.Submitted) -> None:
        if event.value.strip():
            self.dismiss(event.value.strip())
        else:
            event.prompt.set_note("a reason, please", "watch")

    @on(Prompt.Cancelled)
    def _cancelled(self) -> None:
        self.dismiss(None)
