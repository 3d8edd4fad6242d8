"""The layout of a screen: every widget is told that it shows, and only the cells that changed are sent.

Four corrections of the framework's compositor, whose parts these classes override and nothing else.
"""

from __future__ import annotations

from rich.color import ColorSystem
from rich.console import Console
from textual._compositor import ChopsUpdate, Compositor, LayoutUpdate, ReflowResult
from textual.geometry import Size
from textual.widget import Widget

from rltui.screens.sending import Piece, pieces, sequences


class ExactUpdate(ChopsUpdate):
    """The framework sends a span from the left edge of its widget on; this sends the span, in few bytes."""

    def render_segments(self, console: Console) -> str:
        system, found = console._color_system or ColorSystem.TRUECOLOR, list[Piece]()
        for y, first, end in self.spans:
            for right, (left, strip) in zip(self.chop_ends[y], self.chops[y].items(), strict=False):
                start, stop = max(left, first), min(right, end)
                if strip is None or start >= stop:
                    continue
                part = strip if (start, stop) == (left, right) else strip.crop(start - left, stop - left)
                found += pieces(y, start, part, system)
        return sequences(found, self.chop_ends[0][-1])


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
        """Of the widgets that lie where something changed: the framework asks all of them for all of their rows."""
        rows: dict[int, tuple[int, int]] = {}  # from the first to the last cell that changed
        for left, y, width, height in self._dirty_regions:
            for row in range(y, y + height):
                first, end = rows.get(row, (left, left))
                rows[row] = min(first, left), max(end, left + width)
        whole, _ = self.visible_widgets, self.cuts
        for widget, (region, clip) in whole.items():
            seen = region.intersection(clip)
            if any(dirty.contains_region(seen) for dirty in self._dirty_regions):
                widget._exchange_repaint_regions()  # all of it is drawn now, and not once more with its next change
        self._visible_widgets = {
            widget: place
            for widget, place in whole.items()
            if any(y in rows and place[0].x < rows[y][1] and rows[y][0] < place[0].right for y in place[0].line_range)
        }
        try:
            update = super().render_partial_update()
        finally:
            self._visible_widgets = whole
        return None if update is None else ExactUpdate(update.chops, update.spans, update.chop_ends)

    def render_full_update(self, simplify: bool = False) -> LayoutUpdate:
        """All is sent. The framework would send what was to be sent of a widget once more, with its next change."""
        update = super().render_full_update(simplify)
        for widget in self.visible_widgets:
            widget._exchange_repaint_regions()
        return update
