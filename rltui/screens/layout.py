"""The layout of a screen: every widget is told that it shows, and only the cells that changed are sent.

Two corrections of the framework's compositor, whose parts these classes override and nothing else.
"""

from __future__ import annotations

from rich.console import Console
from rich.control import Control
from textual._compositor import ChopsUpdate, Compositor, ReflowResult
from textual.geometry import Size
from textual.widget import Widget


class ExactUpdate(ChopsUpdate):
    """The framework sends a span from the left edge of its widget on; this sends the span."""

    def render_segments(self, console: Console) -> str:
        sent: list[str] = []
        last_y = self.spans[-1][0]
        for y, first, end in self.spans:
            for right, (left, strip) in zip(self.chop_ends[y], self.chops[y].items(), strict=False):
                start, stop = max(left, first), min(right, end)
                if strip is None or start >= stop:
                    continue
                part = strip if (start, stop) == (left, right) else strip.crop(start - left, stop - left)
                sent += [Control.move_to(start, y).segment.text, part.render(console)]
            if y != last_y:
                sent.append("\n")
        return "".join(sent)


class ScreenCompositor(Compositor):
    """The framework's own loses Show and Resize when a place on the screen is asked for between mounting and layout.

    It then has the new widgets in its map already and takes them for known. Such a widget would stay empty: this one
    compares with the layout before, whatever was asked meanwhile.
    """

    def __init__(self) -> None:
        super().__init__()
        self._told: dict[Widget, Size] = {}

    def reflow(self, parent: Widget, size: Size) -> ReflowResult:
        hidden, shown, resized = super().reflow(parent, size)
        before = self._told
        self._told = {widget: place.region.size for widget, place in self._full_map.items()}
        new = self._told.keys() - before.keys()
        changed = {widget for widget, now in self._told.items() if widget in before and before[widget] != now}
        return ReflowResult(hidden, shown | new, resized | changed)

    def render_partial_update(self) -> ChopsUpdate | None:
        update = super().render_partial_update()
        return None if update is None else ExactUpdate(update.chops, update.spans, update.chop_ends)
