"""A chart as SVG: the course of some series over steps, for a page that has no script. Pure."""

from __future__ import annotations

from collections.abc import Sequence
from html import escape
from math import isfinite

from rltui.charts.numbers import labels, number, place
from rltui.charts.parts import Mark, Series
from rltui.charts.pyramid import Columns, Pyramid
from rltui.charts.scale import Scale, fit_scale, ticks
from rltui.text import clean

LEFT, RIGHT, TOP, BOTTOM = 54, 10, 8, 20
COLUMNS = 480  # of a course: more cannot be told apart
FEW = 30  # points that are drawn one by one
_LABEL = 24  # characters of a mark


def chart(series: Sequence[Series], marks: Sequence[Mark] = (), *, width: int = 560, height: int = 190) -> str:
    """One `<svg>`; colours come from the page's classes s0, s1 … Values that are not finite are marks at the bottom."""
    ranges = [found for one in series if (found := one.pyramid.range())]
    bounds = [
        found for one in series if (span := one.pyramid.range()) and (found := one.pyramid.bounds(*span)) is not None
    ]
    head = f'<svg viewBox="0 0 {width} {height}" role="img" aria-label="{escape(_said(series))}">'
    if not ranges or not bounds:
        return f"{head}{_words(width / 2, height / 2, 'middle', 'no values')}</svg>"
    low, high = min(one[0] for one in ranges), max(one[1] for one in ranges)
    plot = _Plot(
        Scale(low, high if high > low else low + 1),
        fit_scale(min(one[0] for one in bounds), max(one[1] for one in bounds)),
        width,
        height,
    )
    parts = [head, *plot.axes(), *plot.marks(marks)]
    for i in range(len(series) - 1, -1, -1):
        parts += plot.series(series[i], i)
    return "".join([*parts, "</svg>"])


def _said(series: Sequence[Series]) -> str:
    """The chart in words, for who cannot see it."""
    found = [(one.name, one.front.last()) for one in series]
    return ", ".join(f"{clean(name, 80)} {number(last[1])}" for name, last in found if last is not None) or "no values"


def _words(x: float, y: float, anchor: str, text: str) -> str:
    return f'<text x="{x:.1f}" y="{y:.1f}" text-anchor="{anchor}">{escape(text)}</text>'


class _Plot:
    def __init__(self, x: Scale, y: Scale, width: int, height: int) -> None:
        self._x_scale, self._y_scale, self._width, self._height = x, y, width, height

    def x(self, value: float) -> float:
        share = (value - self._x_scale.low) / (self._x_scale.high - self._x_scale.low)
        return LEFT + share * (self._width - LEFT - RIGHT)

    def y(self, value: float) -> float:
        share = (value - self._y_scale.low) / (self._y_scale.high - self._y_scale.low)
        return TOP + (1 - share) * (self._height - TOP - BOTTOM)

    def axes(self) -> list[str]:
        parts = []
        values = ticks(self._y_scale, 5)
        for value, label in zip(values, labels(values), strict=True):
            y = self.y(value)
            parts.append(f'<path class="grid" d="M{LEFT} {y:.1f}H{self._width - RIGHT}"/>')
            parts.append(_words(LEFT - 6, y + 3.5, "end", label.strip()))
        for value in (tick for tick in ticks(self._x_scale, 6) if tick == int(tick)):
            parts.append(_words(self.x(value), self._height - 5, "middle", place(value)))
        return parts

    def marks(self, marks: Sequence[Mark]) -> list[str]:
        parts = []
        for mark in marks:
            if self._x_scale.low <= mark.x <= self._x_scale.high:
                x = self.x(mark.x)
                parts.append(f'<path class="mark" d="M{x:.1f} {TOP}V{self._height - BOTTOM}"/>')
                anchor, by = ("end", -4) if x > self._width * 0.8 else ("start", 4)
                parts.append(_words(x + by, TOP + 10, anchor, clean(mark.label, _LABEL)))
        return parts

    def series(self, one: Series, i: int) -> list[str]:
        parts = []
        if one.front is not one.pyramid:
            parts.append(f'<path class="raw s{i % 8}" d="{self._course(one.pyramid)}"/>')
        parts.append(f'<path class="line s{i % 8}" d="{self._course(one.front)}"/>')
        xs, ys = one.pyramid.points(0, len(one.pyramid)) if len(one.pyramid) <= FEW else ((), ())
        for x, y in zip(xs, ys, strict=True):
            if isfinite(y):
                parts.append(f'<circle class="dot s{i % 8}" cx="{self.x(x):.1f}" cy="{self.y(y):.1f}" r="2"/>')
        for x in self._gaps(one.pyramid):
            parts.append(f'<path class="gap" d="M{x:.1f} {self._height - BOTTOM}v-6"><title>not finite</title></path>')
        return parts

    def _columns(self, pyramid: Pyramid) -> tuple[list[float], Columns]:
        step = (self._x_scale.high - self._x_scale.low) / COLUMNS
        edges = [self._x_scale.low + step * (k - 0.5) for k in range(COLUMNS + 2)]
        return edges, pyramid.columns_at(edges)

    def _course(self, pyramid: Pyramid) -> str:
        """Few points as they are; of many the lowest and the highest of each column, so that no spike is lost."""
        found: list[str] = []
        if len(pyramid) <= COLUMNS:
            pen = "M"
            for x, y in zip(*pyramid.points(0, len(pyramid)), strict=True):
                if isfinite(y):
                    found.append(f"{pen}{self.x(x):.1f} {self.y(y):.1f}")
                pen = "L" if isfinite(y) else "M"
            return "".join(found)
        edges, columns = self._columns(pyramid)
        for k, span in enumerate(columns.spans):
            if span is not None:
                x = self.x((edges[k] + edges[k + 1]) / 2)
                pen = "L" if found and span.joined else "M"
                found.append(f"{pen}{x:.1f} {self.y(span.first):.1f}")
                if span.low != span.high:
                    found.append(f"V{self.y(span.low):.1f}V{self.y(span.high):.1f}V{self.y(span.last):.1f}")
        return "".join(found)

    def _gaps(self, pyramid: Pyramid) -> list[float]:
        if not pyramid.gap_count:
            return []
        edges, columns = self._columns(pyramid)
        return [self.x((edges[k] + edges[k + 1]) / 2) for k, count in enumerate(columns.gaps) if count]
