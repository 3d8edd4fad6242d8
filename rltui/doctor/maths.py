"""The little statistics that rules need, over short windows. Pure, without numpy: it is on the way to a screen."""

from __future__ import annotations

from collections.abc import Sequence
from math import ceil, sqrt
from typing import NamedTuple


def mean(values: Sequence[float]) -> float:
    """Of at least one value."""
    return sum(values) / len(values)


def median(values: Sequence[float]) -> float:
    """Of at least one value; the upper one of two."""
    return sorted(values)[len(values) // 2]


def quantile(values: Sequence[float], share: float) -> float:
    """The least value that is not below `share` of at least one value."""
    return sorted(values)[max(0, ceil(share * len(values)) - 1)]


class Slope(NamedTuple):
    """Of a straight line through points: rise per x, and its standard error."""

    rise: float
    error: float


def slope(xs: Sequence[float], ys: Sequence[float]) -> Slope | None:
    """Least squares; None below three points, or where all x are one."""
    n = len(xs)
    if n < 3:
        return None
    mx, my = mean(xs), mean(ys)
    sxx = sum((x - mx) ** 2 for x in xs)
    if sxx == 0:
        return None
    rise = sum((x - mx) * (y - my) for x, y in zip(xs, ys, strict=True)) / sxx
    rest = sum((y - my - rise * (x - mx)) ** 2 for x, y in zip(xs, ys, strict=True))
    return Slope(rise, sqrt(rest / (n - 2) / sxx))
