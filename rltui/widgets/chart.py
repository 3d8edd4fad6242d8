"""A chart of one or more series. It draws when it is seen and repaints only the cells that changed.

In braille, in ASCII where the look asks for it. A UTF-8 terminal whose font has no braille is not noticed: --ascii
helps there.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from functools import cache
from typing import Any

from rich.segment import Segment
from rich.style import Style as RichStyle
from textual import events
from textual.geometry import Region
from textual.message import Message
from textual.strip import Strip
from textual.widget import Widget

from rltui.charts.draw import Drawing, draw
from rltui.charts.parts import Axis, Description, Ink, Mark, Options, Run, Series, Style
from rltui.charts.pyramid import Pyramid
from rltui.charts.smooth import DEFAULT_WEIGHT, Ema
from rltui.look import ColorMode, Look
from rltui.look.colors import blend
from rltui.text import clean
from rltui.widgets.bar import changed_cells
from rltui.widgets.bindings import bindings
from rltui.widgets.lines import look_of, safe_segments

_NARROWEST = 2.0  # steps that a zoom shows at least
_PAN = 0.25  # share of the range that one key moves it by
_FAINT = 0.45  # share of its colour that raw data keep behind their average
_SLICE = 20_000  # points smoothed before other work gets its turn


class Chart(Widget, can_focus=True, inherit_bindings=False):
    """Call `set_series` once and `refresh_data` when the data may have grown.

    `axes` are the ways to label x, of which `a` takes the next. `ema` is the weight of the average that is
    drawn in front of the data, 0 for none (see charts.smooth.default_weight).
    """

    ALLOW_SELECT = False
    BINDINGS = bindings("chart")
    DEFAULT_CSS = "Chart { width: 1fr; height: 1fr; }"

    class CursorMoved(Message):
        """A person moved the cursor to `x`, or took it away (None). `set_cursor` on the other charts follows it."""

        def __init__(self, chart: Chart, x: float | None) -> None:
            super().__init__()
            self.chart, self.x = chart, x

    class Opened(Message):
        """What lies behind `x` is wanted: the cursor's x, else the last one."""

        def __init__(self, chart: Chart, x: float) -> None:
            super().__init__()
            self.chart, self.x = chart, x

    class Adjusted(Message):
        """A person changed how the chart shows its data: `options` or `ema`."""

        def __init__(self, chart: Chart) -> None:
            super().__init__()
            self.chart = chart

        @property
        def control(self) -> Chart:
            """The chart, for `@on` with a selector."""
            return self.chart

    class Described(Message):
        """`chart.description` changed: for the title of a pane."""

        def __init__(self, chart: Chart) -> None:
            super().__init__()
            self.chart = chart

    def __init__(
        self, *, ema: float = 0.0, axes: Sequence[Axis] = (Axis(),), name: str | None = None, id: str | None = None
    ) -> None:
        super().__init__(name=name, id=id)
        self.options = Options(axis=axes[0])
        self.ema = ema
        self.description = Description()
        self._axes = tuple(axes)
        self._ema_if_on = ema or DEFAULT_WEIGHT
        self._series: list[Series] = []
        self._emas: dict[Pyramid, Ema] = {}
        self._drawing = Drawing([], Description())
        self._strips: list[Strip] = []  # its lines, as the screen has them
        self._worn: object = None  # what the strips were made for
        self._drawn_for: object = None  # size and look of the drawing; None: it is out of date
        self._catching_up = False
        self._pressed: int | None = None

    # What is shown

    def set_series(self, series: Sequence[Series], *, ema: float | None = None, **options: Any) -> None:
        """Shows these, the first in front. `ema` and `options` as `set_ema` and `set_options` have them."""
        self._series = [replace(one, name=clean(one.name, 100)) for one in series]
        self._emas = {one.pyramid: known for one in series if (known := self._emas.get(one.pyramid))}
        self._ema(self.ema if ema is None else ema)
        self.options = self._options(options)
        self.refresh_data()

    def set_options(self, **changes: Any) -> None:
        """Changes fields of `options`."""
        before, self.options = self.options, self._options(changes)
        if self.options != before:
            self.refresh_data()
        if (before.view is None) != (self.options.view is None) and self.has_focus:
            self.refresh_bindings()

    def _options(self, changes: dict[str, Any]) -> Options:
        if "marks" in changes:
            changes["marks"] = tuple(Mark(mark.x, clean(mark.label, 60)) for mark in changes["marks"])
        return replace(self.options, **changes)

    def set_ema(self, weight: float) -> None:
        """The weight of the average in front of the data; 0: none."""
        if weight != self.ema:
            self._ema(weight)
            self.refresh_data()

    def _ema(self, weight: float) -> None:
        self.ema = weight
        self._ema_if_on = weight or self._ema_if_on

    def set_cursor(self, x: float | None) -> None:
        """Puts the cursor at `x`; no message is sent."""
        self.set_options(cursor=x)

    def refresh_data(self) -> None:
        """Draws again what is seen of the data; a chart that is not seen only remembers to."""
        self._drawn_for = None
        if not (self.is_attached and self.size and self.is_on_screen):
            self.refresh()  # lines that the framework keeps of it are out of date
            return
        before = self._strips
        self._draw()
        if len(self._strips) != len(before):
            self.refresh()
            return
        regions = []
        for y, (new, old) in enumerate(zip(self._strips, before, strict=True)):
            if new is not old and (cells := changed_cells(old, new)) is not None:
                regions.append(Region(cells[0], y, cells[1] - cells[0], 1))
        if regions:
            self.refresh(*regions)

    def render_line(self, y: int) -> Strip:
        """One row of the screen."""
        if self._drawn_for != self._shown_as():
            self._draw()
        if y >= len(self._strips):
            return Strip.blank(self.size.width, self.rich_style)
        return self._strips[y]

    def _shown_as(self) -> object:
        return self.size, id(look_of(self))

    def _draw(self) -> None:
        look, before = look_of(self), self._drawing.lines
        smoothed = self.ema > 0 and self._smooth()
        series = [replace(one, smooth=self._emas[one.pyramid].pyramid) for one in self._series] if smoothed else None
        width, height = self.size
        self._drawing = draw(series or self._series, self.options, width, height, look.chart_level, look)
        self._drawn_for = self._shown_as()
        self._put_strips(before, look)
        if self._drawing.description != self.description:
            self.description = self._drawing.description
            self.post_message(self.Described(self))

    def _put_strips(self, before: list[list[Run]], look: Look) -> None:
        """Lines that are as they were `before` keep their strips."""
        known, lines, base, width = self._strips, self._drawing.lines, self.rich_style, self.size.width
        worn = (id(look), base, width)
        same = worn == self._worn and len(lines) == len(before)
        self._worn = worn
        self._strips = [
            known[y] if same and line == before[y] else _strip(line, look, base, width) for y, line in enumerate(lines)
        ]

    def _smooth(self) -> bool:
        """Brings the averages up to date, a slice at a time; the raw data are shown until they are."""
        for one in self._series:
            ema = self._emas.get(one.pyramid)
            if ema is None or ema.weight != self.ema:
                ema = self._emas[one.pyramid] = Ema(one.pyramid, self.ema)
            if ema.update(_SLICE):
                if not self._catching_up:
                    self._catching_up = True
                    self.set_timer(0.005, self._catch_up)
                return False
        return True

    def _catch_up(self) -> None:
        self._catching_up = False
        if self.ema > 0 and self._smooth():
            self.refresh_data()

    # Keys

    def check_action(self, action: str, parameters: tuple[object, ...]) -> bool | None:
        """There is nothing to pan while all of it shows."""
        return self.options.view is not None if action in ("pan_left", "pan_right") else True

    def action_cursor_left(self) -> None:
        self.move_cursor(-1)

    def action_cursor_right(self) -> None:
        self.move_cursor(1)

    def action_zoom_in(self) -> None:
        self._zoom(0.5, self.options.cursor)

    def action_zoom_out(self) -> None:
        self._zoom(2.0, self.options.cursor)

    def action_pan_left(self) -> None:
        self._pan(-_PAN)

    def action_pan_right(self) -> None:
        self._pan(_PAN)

    def action_ema(self) -> None:
        self.set_ema(0.0 if self.ema else self._ema_if_on)
        self.post_message(self.Adjusted(self))

    def action_log_y(self) -> None:
        self._adjust(log_y=not self.options.log_y)

    def action_log_x(self) -> None:
        self._adjust(log_x=not self.options.log_x)

    def action_clip(self) -> None:
        self._adjust(clip=not self.options.clip)

    def action_labels(self) -> None:
        at = self._axes.index(self.options.axis) if self.options.axis in self._axes else -1
        self._adjust(axis=self._axes[(at + 1) % len(self._axes)])

    def _adjust(self, **changes: Any) -> None:
        before = self.options
        self.set_options(**changes)
        if self.options != before:
            self.post_message(self.Adjusted(self))

    def action_open(self) -> None:
        x = self.options.cursor
        if x is None and (full := self._full_range()):
            x = full[1]
        if x is not None:
            self.post_message(self.Opened(self, x))

    def move_cursor(self, direction: int) -> None:
        """One column, at least one point, further; beyond the last point the cursor goes."""
        full = self._full_range()
        if full is None:
            return
        view = self.options.view or full
        cursor = self.options.cursor
        column = (view[1] - view[0]) / max(1, self._drawing.plot_width)
        if cursor is None:
            self._put_cursor(self._nearest(view[1]) if direction < 0 else None)
            return
        by = direction * column
        beside = [x for one in self._series if (x := one.pyramid.neighbour(cursor, by)) is not None]
        x = min(beside, key=lambda x: abs(x - cursor - by), default=None)
        if x is None and direction < 0:
            return
        if x is not None and self.options.view and not view[0] <= x <= view[1]:
            shift = x - view[0] if x < view[0] else x - view[1]
            self._adjust(view=(view[0] + shift, view[1] + shift))
        self._put_cursor(x)

    def _nearest(self, x: float) -> float | None:
        """The x of the point of any series that is nearest to `x`."""
        found = [at[0] for one in self._series if (at := one.pyramid.at(x)) is not None]
        return min(found, key=lambda near: abs(near - x), default=None)

    def _put_cursor(self, x: float | None) -> None:
        if x != self.options.cursor:
            self.set_cursor(x)
            self.post_message(self.CursorMoved(self, x))

    def _zoom(self, factor: float, around: float | None) -> None:
        """A range `factor` times as wide, `around` staying in its place (without it, the right end)."""
        full = self._full_range()
        if full is None:
            return
        low, high = self.options.view or full
        center = high if around is None else min(high, max(low, around))
        low, high = center - (center - low) * factor, center + (high - center) * factor
        self._show_range(low, high, full)

    def _show_range(self, low: float, high: float, full: tuple[float, float]) -> None:
        if high - low < min(_NARROWEST, full[1] - full[0]):
            return
        whole = high - low >= full[1] - full[0]
        self._adjust(view=None if whole else (max(low, full[0]), min(high, full[1])))

    def _pan(self, share: float) -> None:
        """The range moves by a share of its width, as far as there are points."""
        full, view = self._full_range(), self.options.view
        if full is None or view is None:
            return
        by = share * (view[1] - view[0])
        by = max(full[0] - view[0], min(full[1] - view[1], by))
        self._adjust(view=(view[0] + by, view[1] + by))

    def _full_range(self) -> tuple[float, float] | None:
        ranges = [found for one in self._series if (found := one.pyramid.range())]
        return (min(low for low, _ in ranges), max(high for _, high in ranges)) if ranges else None

    # The mouse

    def on_mouse_scroll_up(self, event: events.MouseScrollUp) -> None:
        event.stop()
        self._zoom(0.5, self._x_at(event.x))

    def on_mouse_scroll_down(self, event: events.MouseScrollDown) -> None:
        event.stop()
        self._zoom(2.0, self._x_at(event.x))

    def on_mouse_down(self, event: events.MouseDown) -> None:
        self._pressed = event.x
        self.capture_mouse()

    def on_mouse_up(self, event: events.MouseUp) -> None:
        """A click puts the cursor, a drag selects a range."""
        self.release_mouse()
        pressed, self._pressed = self._pressed, None
        full, x = self._full_range(), self._x_at(event.x)
        if pressed is None or full is None or x is None:
            return
        start = self._x_at(pressed)
        if abs(event.x - pressed) > 1 and start is not None:
            self._show_range(min(start, x), max(start, x), full)
        else:
            self._put_cursor(self._nearest(x))

    def _x_at(self, column: int) -> float | None:
        """The x in the middle of a column of the widget, the nearest one in the plot."""
        drawing = self._drawing
        if drawing.x is None:
            return None
        place = (column - drawing.left + 0.5) / drawing.plot_width
        return drawing.x.value(min(1.0, max(0.0, place)))


def _strip(line: Sequence[Run], look: Look, base: RichStyle, width: int) -> Strip:
    segments = safe_segments(Segment(text, _rich(look, style)) for text, style in line)
    return Strip(Segment.apply_style(segments, base)).adjust_cell_length(width, base)


def _rich(look: Look, style: Style) -> RichStyle:
    if not isinstance(style, Ink):
        return look.style(style)
    ink = look.series(style.series)
    if not style.faint:
        return ink
    if look.color is ColorMode.TRUECOLOR and ink.color:
        return _blended(look.theme.rgb.colors["background"], ink.color.get_truecolor().hex)
    return ink + RichStyle(dim=True)


@cache
def _blended(background: str, color: str) -> RichStyle:
    """Terminals dim a colour each in their own way, some not at all."""
    return RichStyle(color=blend((background, color), _FAINT))
