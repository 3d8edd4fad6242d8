"""What a chart is made of: series, options, marks; and what a drawing says besides its lines."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from math import isfinite
from typing import NamedTuple, Protocol

from rltui.charts.numbers import number, place
from rltui.charts.pyramid import Pyramid
from rltui.charts.scale import Limits

TREND_STEPS = 50


class Ink(NamedTuple):
    """The style of series number `series` (of the look); `faint` for raw data behind its average."""

    series: int
    faint: bool = False


Style = str | Ink  # a name of the look's styles, or a series
Run = tuple[str, Style]


class Shapes(Protocol):
    """What a drawing needs of a look: one-cell glyphs, by name and by series."""

    def glyph(self, name: str) -> str: ...

    def marker(self, i: int) -> str: ...


@dataclass(frozen=True)
class Series:
    """One line; `smooth` is its average, drawn in front of it. `name` is printable text."""

    name: str
    pyramid: Pyramid
    index: int
    smooth: Pyramid | None = None

    @property
    def front(self) -> Pyramid:
        return self.smooth if self.smooth is not None and len(self.smooth) else self.pyramid


@dataclass(frozen=True)
class Mark:
    """A vertical mark at `x`: a checkpoint, an evaluation, a changed key. `label` is printable text."""

    x: float
    label: str


@dataclass(frozen=True)
class Axis:
    """How x is labelled; the points stay where they are. `label` turns an x (a step) into text."""

    name: str = "step"
    label: Callable[[float], str] = place


@dataclass(frozen=True)
class Options:
    """`view`: the x range shown, None = all of it. `band`: a shaded range of y, such as a noise floor.

    `growing`: more points come, so the right end of x goes ahead of them in strides: between two of these a new point
    changes a few cells, not all.
    """

    log_x: bool = False
    log_y: bool = False
    clip: bool = False
    limits: Limits = (None, None)
    view: tuple[float, float] | None = None
    cursor: float | None = None
    marks: tuple[Mark, ...] = ()
    band: tuple[float, float] | None = None
    axis: Axis = Axis()
    growing: bool = False


@dataclass(frozen=True)
class Description:
    """What a title or a legend can say. `hidden` points lie outside the y axis, about so many if not `exact`."""

    last: float | None = None
    trend: float | None = None
    trend_steps: float = 0
    hidden: int = 0
    exact: bool = True
    gaps: int = 0
    notes: tuple[str, ...] = ()

    def title(self, shapes: Shapes) -> str:
        """ "0.41  ▲ +0.03 / 50 steps"; empty without a value."""
        if self.last is None:
            return ""
        if self.trend is None:
            return number(self.last)
        arrow = shapes.glyph("up" if self.trend > 0 else "down" if self.trend < 0 else "dot")
        sign = "+" if self.trend >= 0 else ""
        return f"{number(self.last)}  {arrow} {sign}{number(self.trend, 2)} / {place(self.trend_steps)} steps"


def trend(pyramid: Pyramid) -> tuple[float, float] | None:
    """How much the series moved over its last TREND_STEPS steps (or all it has), and over how many."""
    last, x_range = pyramid.last(), pyramid.range()
    if last is None or x_range is None:
        return None
    before = pyramid.at(max(x_range[0], last[0] - TREND_STEPS))
    if before is None or before[0] >= last[0] or not isfinite(before[1]):
        return None
    return last[1] - before[1], last[0] - before[0]
