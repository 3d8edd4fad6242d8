"""A screen that is not built yet: what it will be, and the verb that does its work today."""

from __future__ import annotations

from rich.segment import Segment
from textual.app import ComposeResult

from rltui.screens.base import AppScreen
from rltui.text_lines import wrap
from rltui.widgets.lines import Lines, look_of

# name: (title, what it will be, the verb that does it today)
PLANNED = {
    "compare": ("Compare", "show two to six runs side by side", "rltui config diff A B, rltui show RUN"),
}


class _Words(Lines):
    def __init__(self, name: str) -> None:
        super().__init__()
        self._title, about, verb = PLANNED[name]
        self._about, self._today = f"{self._title} will {about}. It is not built yet.", f"Today: {verb}"
        self._rows: list[tuple[str, str]] = []  # (text, its first word's style)

    def on_resize(self) -> None:
        room = max(20, self.size.width - 4)
        about, today = wrap(self._about, room), wrap(self._today, room)
        self._rows = [("", "text"), ("", "text"), (about[0], "title"), *((row, "text") for row in about[1:])]
        self._rows += [("", "text"), (today[0], "dim"), *((row, "key") for row in today[1:])]
        self.line_count = len(self._rows)
        self.refresh()

    def line(self, y: int, width: int) -> list[Segment]:
        style = look_of(self).style
        text, name = self._rows[y]
        first, gap, rest = text.partition(" ") if name in ("title", "dim") else ("", "", text)
        rest_name = {"title": "text", "dim": "key"}.get(name, name)
        return [Segment(f"  {first}{gap}", style(name)), Segment(rest, style(rest_name))]


class PlannedScreen(AppScreen):
    def __init__(self, name: str) -> None:
        super().__init__(name=name)
        self._planned = name

    def body(self) -> ComposeResult:
        yield _Words(self._planned)
