"""From values to places on an axis: round ends, ticks, and the outlier clip."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from math import ceil, floor, log2, log10

from rltui.charts.numbers import number

Limits = tuple[float | None, float | None]
_HUGE = 1e300  # axes end here, so that the distance of their ends is a finite number
_TINY = 1e-300
_SAME = 1e-9  # relative: what lies closer is one value, but for the rounding of an average
_EDGE = 1e-9  # a value this close to an end lies on it


@dataclass(frozen=True)
class Scale:
    """An axis from `low` to `high`: low < high, and low > 0 if `log`."""

    low: float
    high: float
    log: bool = False

    def place(self, value: float) -> float:
        """0 at `low`, 1 at `high`; below 0 or above 1 outside."""
        if self.log:
            bottom = log10(self.low)
            return (log10(max(value, _TINY)) - bottom) / (log10(self.high) - bottom)
        return (value - self.low) / (self.high - self.low)

    def value(self, place: float) -> float:
        """The value at `place`: the inverse of `place()`."""
        if self.log:
            bottom = log10(self.low)
            return 10 ** (bottom + place * (log10(self.high) - bottom))
        return self.low + place * (self.high - self.low)

    def dot(self, value: float, dots: int) -> int:
        """The dot of `value` among `dots`, 0 at `low`; -1 or `dots` if it lies outside."""
        place = self.place(value)
        if place < -_EDGE:
            return -1
        return dots if place > 1 + _EDGE else min(dots - 1, max(0, round(place * (dots - 1))))


@dataclass(frozen=True)
class Clip:
    """The values that stay: the 1st to the 99th percentile."""

    low: float
    high: float


def stride_end(low: float, high: float) -> float:
    """An end at `high` or up to an eighth of the range beyond it, the same for all of the next points.

    Strides are powers of two: of a range of 100 steps the end goes on by 8, of 1,000 by 64.
    """
    span = high - low
    if span < 8:
        return high
    stride = 2.0 ** floor(log2(span / 8))
    return low + stride * ceil(span / stride)


def log_refusal(axis: str, lowest: float) -> str | None:
    """Why a log scale cannot be had, as a sentence; None if it can."""
    if lowest > 0:
        return None
    return f"log {axis} needs > 0, lowest is {number(lowest, 2)}"


def fit_scale(low: float, high: float, log: bool = False, limits: Limits = (None, None)) -> Scale:
    """A scale around [low, high] with round ends, so that a live chart does not move at every point.

    Manual `limits` hold as given, unless they cross. Equal ends are spread. A log scale needs low > 0.
    """
    low_limit, high_limit = limits
    low = _inside(low if low_limit is None else low_limit, log)
    high = _inside(high if high_limit is None else high_limit, log)
    if high - low <= _SAME * max(abs(low), abs(high)):
        spread = abs(low) * 0.1 or 1.0
        low, high = (low - spread if low_limit is None and low else low), low + spread
    round_low, round_high = _round_log(low, high) if log else _round_linear(low, high)
    low = low if low_limit is not None else round_low
    high = high if high_limit is not None else round_high
    if not high - low > abs(low) * 1e-12:  # the distance would be lost in rounding
        high = low + max(abs(low) * 1e-9, _TINY)
    return Scale(low, high, log)


def ticks(scale: Scale, most: int) -> list[float]:
    """At most `most` (>= 2) round values inside the scale, rising: 1, 2 or 5 times a power of ten apart.

    A log scale has powers of ten, with 2 and 5 between them where there is room.
    """
    if scale.log:
        return _log_ticks(scale, most)
    step, finer = _nice((scale.high - scale.low) / most / 4), []
    while len(found := _multiples(scale, step)) > most:
        step, finer = _nice(step * 1.5), found
    return found if len(found) > 1 or not finer else [finer[0], finer[-1]]


def clip(values: Sequence[float]) -> Clip | None:
    """The 1st and 99th percentile of `values` (finite); None below 10 values, where they say nothing."""
    if len(values) < 10:
        return None
    ordered = sorted(values)
    last = len(ordered) - 1
    return Clip(ordered[ceil(last * 0.01)], ordered[floor(last * 0.99)])


def _inside(value: float, log: bool) -> float:
    return max(_TINY if log else -_HUGE, min(_HUGE, value))


def _nice(distance: float) -> float:
    """The smallest of 1, 2, 5 times a power of ten that is at least `distance`."""
    power = floor(log10(max(distance, _TINY)))
    for factor in (1, 2, 5):
        step = float(f"{factor}e{power}")
        if step >= distance * (1 - _EDGE):
            return step
    return float(f"1e{power + 1}")


def _round_linear(low: float, high: float) -> tuple[float, float]:
    step = _nice((high - low) / 10)
    return floor(low / step + _EDGE) * step, ceil(high / step - _EDGE) * step


def _round_log(low: float, high: float) -> tuple[float, float]:
    below = [step for step in _log_steps(low) if step <= low * (1 + _EDGE)]
    above = [step for step in _log_steps(high) if step >= high * (1 - _EDGE)]
    return (below or [low])[-1], (above or [high])[0]


def _log_steps(value: float) -> list[float]:
    power = floor(log10(value))
    return [float(f"{factor}e{power + up}") for up in (0, 1) for factor in (1, 2, 5)]


def _multiples(scale: Scale, step: float) -> list[float]:
    first, last = ceil(scale.low / step - _EDGE), floor(scale.high / step + _EDGE)
    places = max(0, -floor(log10(step)))
    found = (round(k * step, places) if places < 300 else k * step for k in range(first, min(last, first + 50) + 1))
    return [min(scale.high, max(scale.low, value)) for value in found]


def _log_ticks(scale: Scale, most: int) -> list[float]:
    first, last = floor(log10(scale.low)), ceil(log10(scale.high))
    for factors in ((1, 2, 5), (1,)):
        found = [float(f"{factor}e{power}") for power in range(first, last + 1) for factor in factors]
        found = [value for value in found if scale.low * (1 - _EDGE) <= value <= scale.high * (1 + _EDGE)]
        if len(found) <= most:
            break
    apart = max(1, ceil(len(found) / most))
    return found[::apart] or [scale.low]
