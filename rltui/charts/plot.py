"""Paints series on a canvas: columns of dots joined to lines, markers, gaps, marks, the cursor."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from math import isfinite

from rltui.charts.canvas import Canvas
from rltui.charts.parts import Ink, Options, Series, Shapes
from rltui.charts.pyramid import Columns, Pyramid
from rltui.charts.scale import Scale
from rltui.text import width

_LABEL_ROWS = 4  # at the top, that labels of marks may stand in
_APART = 2  # cells at least between two labels of a row, of which one may be the line of a mark
_FEW = 4  # from so many cells a point on, points carry markers


@dataclass(frozen=True)
class Plot:
    """A canvas with its two scales."""

    canvas: Canvas
    x: Scale
    y: Scale

    def column(self, x: float) -> int:
        """The cell column of `x`; -1 or beyond the last one if it is not in view."""
        dot = self.x.dot(x, self.canvas.dots_x)
        return -1 if dot < 0 else dot // (self.canvas.dots_x // self.canvas.width)

    def row_dot(self, y: float) -> int:
        """The dot row of `y`, 0 = top."""
        return self.canvas.dots_y - 1 - self.y.dot(y, self.canvas.dots_y)

    def row(self, y: float) -> int:
        """The cell row of `y`."""
        return self.row_dot(y) // (self.canvas.dots_y // self.canvas.height)

    def edges(self) -> list[float]:
        """The borders of the dot columns in x: the first is centred on the left end, the last on the right."""
        last = self.canvas.dots_x - 1
        middles = (self.x.value((k - 0.5) / last) for k in range(1, last + 1))
        return [self.x.low, *middles, self.x.high]


def paint(plot: Plot, series: Sequence[Series], options: Options, shapes: Shapes, level: str) -> None:
    """Everything between the axes, from back to front."""
    _behind(plot, options, shapes, level)
    edges = plot.edges()
    raw = [one.pyramid.columns_at(edges) for one in series]
    order = range(len(series) - 1, -1, -1)  # the first series lies in front
    for i in order:
        if series[i].front is not series[i].pyramid:
            _line(plot, raw[i], Ink(series[i].index, faint=True))
    for i in order:
        one = series[i]
        front = raw[i] if one.front is one.pyramid else one.front.columns_at(edges)
        _line(plot, front, Ink(one.index))
    for i in order:
        _markers(plot, raw[i], series[i], len(series) > 1, shapes)
        _gaps(plot, raw[i], shapes)
    _labels(plot, options)
    if options.cursor is not None:
        _cursor(plot, series, options.cursor, shapes)


def _behind(plot: Plot, options: Options, shapes: Shapes, level: str) -> None:
    canvas = plot.canvas
    if options.band is not None:
        low, high = (max(-1, min(canvas.dots_y, plot.row_dot(y))) for y in options.band)
        canvas.band(high, low, ":" if level == "ascii" else "░", "grid")
    for column, _ in _marks(plot, options):
        canvas.rule(column, ":" if level == "ascii" else "┊", "dim")
    if options.cursor is not None:
        canvas.rule(plot.column(options.cursor), shapes.glyph("vline"), "accent")


def _marks(plot: Plot, options: Options) -> list[tuple[int, str]]:
    """Column and label of those in view."""
    width_ = plot.canvas.width
    return sorted((column, mark.label) for mark in options.marks if 0 <= (column := plot.column(mark.x)) < width_)


def _labels(plot: Plot, options: Options) -> None:
    """Beside their mark, where neither data nor another label stands; as many of its words as there is room for before
    the next mark, for half a word tells nothing. Those that name a value come first: it stands nowhere else."""
    canvas, taken = plot.canvas, set[tuple[int, int]]()
    marks = _marks(plot, options)
    ends = [column for column, _ in marks[1:]] + [canvas.width]
    for (column, label), end in sorted(zip(marks, ends, strict=False), key=lambda mark: " " not in mark[0][1]):
        if width(label) != len(label):
            continue  # the canvas holds one character a cell; others are in the read-out
        cut = label[: max(0, end - column)].rpartition(" ")[0]
        for text, at in ((label, column + 1), (label, column - len(label)), (cut, column + 1)):
            cells = range(at, at + len(text))
            row = _free_row(canvas, cells, taken) if text and at >= 0 and cells.stop <= canvas.width else None
            if row is not None:
                canvas.write(at, row, text, "dim")
                taken |= {(x, row) for x in range(at - _APART, cells.stop + _APART)}
                break


def _free_row(canvas: Canvas, cells: range, taken: set[tuple[int, int]]) -> int | None:
    """The first of the upper rows with room for a label."""
    rows = range(min(_LABEL_ROWS, canvas.height))
    return next((y for y in rows if all(canvas.is_free(x, y) and (x, y) not in taken for x in cells)), None)


def _line(plot: Plot, columns: Columns, ink: Ink) -> None:
    canvas, row_dot = plot.canvas, plot.row_dot
    before = (-1, 0, 0, 0)  # column, first and last dot row, and dot row of the last value of the span before
    for x, span in enumerate(columns.spans):
        if span is None:
            continue
        top = row_dot(span.high)
        bottom = top if span.low == span.high else row_dot(span.low)  # mostly a column holds one point
        touches = before[0] == x - 1 and top <= before[2] + 1 and bottom >= before[1] - 1
        if span.joined and before[0] >= 0 and not touches:
            # Ends far outside are cut to one dot beyond, so lines to them keep close to their direction.
            canvas.join(before[0], before[3], x, row_dot(span.first), ink)
        canvas.span(x, top, bottom, ink)
        before = (x, top, bottom, top if span.last == span.high else row_dot(span.last))


def _markers(plot: Plot, columns: Columns, series: Series, several: bool, shapes: Shapes) -> None:
    """A marker on each point if there are few; else, among several series, on the last one."""
    canvas = plot.canvas
    places = [(x, span.last) for x, span in enumerate(columns.spans) if span is not None]
    count = series.pyramid.count(plot.x.low, plot.x.high)
    if count * _FEW > canvas.width:
        places = _end(plot, series.front) if several else []
    per_cell = canvas.dots_x // canvas.width
    ink = Ink(series.index, faint=count > 1 and series.front is not series.pyramid and not several)
    for x, value in places:
        canvas.put(x // per_cell, plot.row(value), shapes.marker(series.index), ink)


def _end(plot: Plot, pyramid: Pyramid) -> list[tuple[int, float]]:
    point = pyramid.at(plot.x.high)
    if point is None or not isfinite(point[1]):
        return []
    return [(plot.x.dot(point[0], plot.canvas.dots_x), point[1])]


def _gaps(plot: Plot, columns: Columns, shapes: Shapes) -> None:
    canvas = plot.canvas
    per_cell = canvas.dots_x // canvas.width
    for column in sorted({x // per_cell for x, count in enumerate(columns.gaps) if count}):
        free = (row for row in range(canvas.height - 1, -1, -1) if canvas.is_free(column, row))
        canvas.put(column, next(free, canvas.height - 1), shapes.glyph("gap"), "watch")


def _cursor(plot: Plot, series: Sequence[Series], cursor: float, shapes: Shapes) -> None:
    for one in reversed(series):
        point = one.front.at(cursor)
        if point is not None and isfinite(point[1]):
            plot.canvas.put(plot.column(point[0]), plot.row(point[1]), shapes.marker(one.index), Ink(one.index))
