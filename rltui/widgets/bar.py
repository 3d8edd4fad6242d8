"""The base of the bars of one line: what is drawn again is only what differs from what is on the screen."""

from __future__ import annotations

from collections.abc import Sequence

from rich.cells import cell_len
from rich.segment import Segment
from rich.style import Style
from textual.geometry import Region
from textual.strip import Strip
from textual.widget import Widget

from rltui.widgets.lines import look_of, safe_segments

Part = tuple[str, Style]  # cleaned text and how it looks


class Bar(Widget):
    """Override `parts`; call `update_bar` when what it would draw may have changed."""

    can_focus = False
    ALLOW_SELECT = False
    DEFAULT_CSS = "Bar { height: 1; width: 1fr; }"

    def __init__(self, *, name: str | None = None, id: str | None = None, classes: str | None = None) -> None:
        super().__init__(name=name, id=id, classes=classes)
        self._drawn = Strip.blank(0)
        self._compared = False  # what is to be drawn is `_drawn`: cells beside those that differ are not sent

    def parts(self, width: int) -> Sequence[Part]:
        """The line in at most `width` cells."""
        raise NotImplementedError

    def base_style(self) -> Style:
        """What lies under the whole line."""
        return self.rich_style + look_of(self).style("text")

    def update_bar(self) -> None:
        """Repaint the cells that changed, nothing if none did."""
        if not self.is_mounted or not self.size.width:
            self.refresh()  # hidden, perhaps for a moment alone: what the framework keeps of it is out of date
            return
        before, self._drawn = self._drawn, self._draw()
        changed = changed_cells(before, self._drawn)
        if changed is not None:
            start, end = changed
            self._compared = True
            self.refresh(Region(start, 0, end - start, 1))

    def render_line(self, y: int) -> Strip:
        """The line, exactly as wide as the bar."""
        if y:
            return Strip.blank(self.size.width)
        if not self._compared or self._drawn.cell_length != self.size.width:
            self._drawn = self._draw()
        self._compared = False
        return self._drawn

    def _draw(self) -> Strip:
        width, base = self.size.width, self.base_style()
        parts = (Segment(text, base + style) for text, style in self.parts(width))
        segments = safe_segments(parts, look_of(self).ascii)
        return Strip(segments).adjust_cell_length(width, base)


def changed_cells(old: Strip, new: Strip) -> tuple[int, int] | None:
    """(first, end) of the cells in which two lines differ; None: in none. Another width: all of the new one."""
    if old == new:
        return None
    if old.cell_length != new.cell_length:
        return (0, new.cell_length) if new.cell_length else None
    before, after = _cells(old), _cells(new)
    differing = [at for at, (one, other) in enumerate(zip(before, after, strict=True)) if one != other]
    return (differing[0], differing[-1] + 1) if differing else None


def _cells(strip: Strip) -> list[tuple[str, Style | None]]:
    cells: list[tuple[str, Style | None]] = []
    for text, style, _ in strip:
        if cell_len(text) == len(text):
            cells += [(char, style) for char in text]
            continue
        for char in text:
            part = Segment(char, style)
            cells += [(char, style)] + [("", style)] * (part.cell_length - 1) if part.cell_length else []
    return (cells + [("", None)] * strip.cell_length)[: strip.cell_length]
