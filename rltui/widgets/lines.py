"""The base of all own widgets: content by line, drawn when it is seen, repainted by line.

A list, a log or a form tells how many lines it has and what stands in line y. Nothing else of it exists on the
screen, so 100,000 rows cost what 40 do.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING, cast

from rich.segment import Segment
from rich.style import Style
from textual import events
from textual.geometry import Region, Size
from textual.scroll_view import ScrollView
from textual.strip import Strip
from textual.widget import Widget

from rltui.text_lines import is_printable, printable

if TYPE_CHECKING:
    from rltui.look import Look

WHEEL_LINES = 3


STALE = "-stale"  # the class of what shows data of a source that is lost


def look_of(widget: Widget) -> Look:
    """Theme, colours and glyphs of the app that `widget` belongs to, faded where it shows the last data of a source
    that is lost. Ask at each render, keep nothing."""
    look = cast("Look", widget.app.look)  # type: ignore[attr-defined]
    return look.faded if any(node.has_class(STALE) for node in widget.ancestors) else look


def focus_now(widget: Widget) -> None:
    """The next key goes to `widget`. The framework's own `focus` waits a turn, in which a quick key goes elsewhere.

    One that is not on a screen any more, as where the app leaves, gets none.
    """
    if widget.is_attached:
        widget.screen.set_focus(widget, scroll_visible=False)


# Signs that our own texts are made of. In what others wrote they are as unfit for such a terminal.
ASCII_SIGNS = str.maketrans("…·•→←↑↓×–—−≥≤─│", "~.*><^vx---><-|")


def safe_segments(segments: Iterable[Segment], ascii: bool = False) -> list[Segment]:
    """The last gate before the screen: whatever a widget forgot to clean is cleaned here. Every sign stays a cell."""
    safe = [
        segment
        if not segment.control and is_printable(segment.text)
        else Segment("" if segment.control else printable(segment.text), segment.style)
        for segment in segments
    ]
    return [Segment(text.translate(ASCII_SIGNS), style) for text, style, _ in safe] if ascii else safe


class Lines(ScrollView, can_focus=True, inherit_bindings=False):
    """Override `line`, set `line_count`, and call `refresh_line` for what changed."""

    ALLOW_SELECT = False  # a drag with the mouse stays cheap; the terminal's own selection works with shift
    DEFAULT_CSS = """
    Lines { width: 1fr; height: 1fr; overflow: hidden hidden; scrollbar-size: 0 0; }
    """

    def __init__(self, *, name: str | None = None, id: str | None = None, classes: str | None = None) -> None:
        super().__init__(name=name, id=id, classes=classes)
        self._line_count = 0
        self._drawn: dict[int, Strip] = {}  # what stands in each row of the screen

    # What to override

    def line(self, y: int, width: int) -> list[Segment]:
        """The content of line `y` (0 … line_count - 1) in at most `width` cells; it is cropped and padded."""
        raise NotImplementedError

    def line_style(self, y: int) -> Style | None:
        """What lies over the whole width of line `y`, such as the cursor; None for nothing."""
        return None

    # How much there is

    @property
    def line_count(self) -> int:
        """Lines of content. A new count repaints only the visible lines that came or went."""
        return self._line_count

    @line_count.setter
    def line_count(self, count: int) -> None:
        old, self._line_count = self._line_count, count
        if count == old:
            return
        # Not by assignment: that would lay out the whole screen, and our size on it does not change.
        self.set_reactive(Widget.virtual_size, Size(self.size.width, count))
        if self.is_mounted and self.page_size:
            self.scroll_y = self.validate_scroll_y(self.scroll_y)
        self.refresh_lines(range(max(min(old, count), self.top), min(max(old, count), self.top + self.page_size)))

    # Where we are

    @property
    def top(self) -> int:
        """The content line in the first row of the screen."""
        return self.scroll_offset.y

    @property
    def page_size(self) -> int:
        """Lines that fit."""
        return self.size.height

    @property
    def at_end(self) -> bool:
        """Whether the last line is in view."""
        return self.top + self.page_size >= self._line_count

    def is_visible_line(self, y: int) -> bool:
        """Whether content line `y` is in view."""
        return self.top <= y < self.top + self.page_size

    def scroll_to_top(self, top: int) -> None:
        """Put content line `top` first, as far as there is content; at once, without animation."""
        self.scroll_y = self.validate_scroll_y(top)

    def shift_top(self, lines: int) -> None:
        """Lines came or went above the view: what was in view stays where it is. Repaints nothing itself."""
        self.set_reactive(Widget.scroll_y, self.validate_scroll_y(self.scroll_y + lines))

    def scroll_line_into_view(self, y: int) -> None:
        """Scroll so that line `y` shows, nothing if it does.

        A neighbour of the page comes in by half a page: on a slow line a held key then repaints the page every
        20 lines instead of at each.
        """
        top, page = self.top, self.page_size
        if page < 1 or top <= y < top + page:
            return
        self.scroll_to_top(y - page // 2)

    # Repainting

    def refresh_line(self, y: int) -> None:
        """Repaint content line `y`, nothing if it is not in view."""
        self.refresh_lines((y,))

    def refresh_lines(self, ys: Iterable[int]) -> None:  # type: ignore[override]
        """Repaint these content lines, as far as they are in view."""
        width, top = self.size.width, self.top
        if not self.size:
            self.refresh()  # hidden, perhaps for a moment alone: rows that the framework keeps of it are out of date
            return
        regions = [Region(0, y - top, width, 1) for y in ys if 0 <= y - top < self.page_size]
        if regions:
            self.refresh(*regions)

    def refresh_changed(self) -> None:
        """Anything may be another: repaint the lines in view that do not look as they did."""
        width, base = self.size.width, self.rich_style
        if not self.size:
            self.refresh()
            return
        regions = [Region(0, y, width, 1) for y in range(self.page_size) if self._strip(y, base) != self._drawn.get(y)]
        if regions:
            self.refresh(*regions)

    def render_line(self, y: int) -> Strip:
        """One row of the screen, exactly as wide as the widget."""
        strip = self._drawn[y] = self._strip(y, self.rich_style)
        return strip

    def _strip(self, y: int, base: Style) -> Strip:
        """`base`: the style below all lines, which is slow to find out."""
        width = self.size.width
        at = self.top + y
        if not 0 <= at < self._line_count:
            return Strip.blank(width, base)
        strip = Strip(safe_segments(self.line(at, width), look_of(self).ascii)).adjust_cell_length(width)
        over = self.line_style(at)
        return Strip([Segment(text, _layered(base, style, over)) for text, style, _ in strip], width)

    # The mouse

    def scroll_by(self, lines: int) -> None:
        """Move the view by `lines`; the cursor, where there is one, stays."""
        self.scroll_to_top(self.top + lines)

    def _on_mouse_scroll_down(self, event: events.MouseScrollDown) -> None:
        event.stop()
        self.scroll_by(WHEEL_LINES)

    def _on_mouse_scroll_up(self, event: events.MouseScrollUp) -> None:
        event.stop()
        self.scroll_by(-WHEEL_LINES)


def _layered(base: Style, style: Style | None, over: Style | None) -> Style:
    """`over` lies over the text but not over what has a background of its own, such as a match."""
    if style is None:
        return base + over if over is not None else base
    return base + style + over if over is not None and style.bgcolor is None else base + style
