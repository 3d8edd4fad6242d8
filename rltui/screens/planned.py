"""A screen that is not built yet: what it will be, and the verb that does its work today."""

from __future__ import annotations

from rich.segment import Segment
from textual.app import ComposeResult

from rltui.screens.base import AppScreen
from rltui.widgets.lines import Lines, look_of

# name: (title, what it will be, the verb that does it today)
PLANNED = {
    "config": ("Config", "edit and check a config", "rltui validate FILE, rltui config set FILE KEY VALUE"),
    "launch": ("Launch", "check what a run needs, and start it", "rltui train FILE"),
    "smoke": ("Smoke", "try a task app before any GPU hour is spent", "rltui scan, rltui taskapp serve NAME"),
    "compare": ("Compare", "two to six runs side by side", "rltui config diff A B, rltui show RUN"),
    "doctor": ("Doctor", "what is wrong with a run, and which key to change", "rltui show RUN"),
}


class _Words(Lines):
    def __init__(self, name: str) -> None:
        super().__init__()
        self._title, self._about, self._verb = PLANNED[name]

    def on_mount(self) -> None:
        self.line_count = 5

    def line(self, y: int, width: int) -> list[Segment]:
        style = look_of(self).style
        if y == 2:
            return [
                Segment(f"  {self._title} ", style("title")),
                Segment(f"will {self._about}. It is not built yet.", style("text")),
            ]
        if y == 4:
            return [Segment("  Today: ", style("dim")), Segment(self._verb, style("key"))]
        return []


class PlannedScreen(AppScreen):
    def __init__(self, name: str) -> None:
        super().__init__(name=name)
        self._planned = name

    def body(self) -> ComposeResult:
        yield _Words(self._planned)
