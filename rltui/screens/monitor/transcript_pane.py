"""The pane of one episode: its transcript, below it what the colours of its tokens say."""

from __future__ import annotations

from typing import ClassVar

from textual import on
from textual.app import ComposeResult
from textual.binding import BindingType

from rltui.screens.monitor.writing import write_text
from rltui.screens.monitor.xray_bar import XrayBar
from rltui.widgets.bindings import allowed, bindings
from rltui.widgets.finding import FindPane
from rltui.widgets.instead import Instead
from rltui.widgets.transcript import Transcript


class TranscriptPane(FindPane):
    """The transcript, and the key that writes it to a file."""

    BINDINGS: ClassVar[list[BindingType]] = bindings("transcript")
    stem = ""  # of the file's name; "" while there is no episode

    def compose(self) -> ComposeResult:
        """What there is to say without an episode, then what every such pane has."""
        yield Instead()
        yield from super().compose()
        yield XrayBar()

    def show_none(self, why: str) -> None:
        """No episode, for a reason that stands in its place; "" where the next one comes at once."""
        self.stem = ""
        self.query_one(Transcript).clear()
        self.query_one(XrayBar).follow(self.query_one(Transcript))
        self.set_title("Episode")
        self.set_info("")
        self.query_one(Instead).say((why, "dim"))
        self.add_class("-none")

    @on(Transcript.Read)
    def _read(self, event: Transcript.Read) -> None:
        event.stop()
        self.query_one(XrayBar).follow(event.view)
        self.refresh_bindings()

    def check_action(self, action: str, parameters: tuple[object, ...]) -> bool | None:
        """What writes is refused under --readonly."""
        return allowed(self, action)

    def action_write(self) -> None:
        model = self.query_one(Transcript).model
        if model is not None and self.stem:
            import json

            write_text(self, self.stem, json.dumps(model.episode, ensure_ascii=False, indent=1) + "\n")
