"""Numbers as a chart writes them: short, and lined up on an axis."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import pairwise
from math import floor, isfinite, isnan, log10

_UNITS = ((1e12, "T"), (1e9, "G"), (1e6, "M"), (1e3, "k"))
_SMALL = 1e-3  # below it, and from _LARGE on, powers of ten are written out
_LARGE = 1e15


def number(value: float, digits: int = 3) -> str:
    """`value` with `digits` significant digits: 0.412, 12.3, 1.23k, 3.1e-5; whole numbers below 1000 as they are."""
    if not isfinite(value):
        return "NaN" if isnan(value) else "Inf" if value > 0 else "-Inf"
    if not value:
        return "0"
    value = float(f"{value:.{digits - 1}e}")
    size = abs(value)
    if not _SMALL <= size < _LARGE:
        return _short_exponent(f"{value:.{max(0, digits - 2)}e}")
    for unit, letter in _UNITS:
        if size >= unit:
            return _fixed(value / unit, digits) + letter
    return f"{value:.0f}" if value == int(value) else _fixed(value, digits)


def place(x: float) -> str:
    """A step or another whole count in full up to seven digits, else as `number`."""
    return f"{x:.0f}" if abs(x) < 1e7 and x == int(x) else number(x)


def labels(ticks: Sequence[float]) -> list[str]:
    """The labels of rising `ticks`, as wide as each other: the same decimals and the same unit, a bare 0."""
    largest = max((abs(tick) for tick in ticks), default=0.0)
    if largest and not _SMALL <= largest < _LARGE:
        power = _power(largest)
        # Divided in two steps: 10.0**power is 0 or infinite at the ends of the range.
        scaled = [tick / 10.0 ** (power // 2) / 10.0 ** (power - power // 2) for tick in ticks]
        unit = f"e{power}"
    elif largest >= 1e4:
        size, unit = next(pair for pair in _UNITS if largest >= pair[0])
        scaled = [tick / size for tick in ticks]
    else:
        scaled, unit = list(ticks), ""
    decimals = _decimals(scaled)
    texts = [f"{value:.{decimals}f}{unit}" if value or not unit else "0" for value in scaled]
    return _right(texts)


def log_labels(ticks: Sequence[float]) -> list[str]:
    """Labels of a log axis: each in its own unit, as wide as each other."""
    return _right([number(tick, 1) for tick in ticks])


def _right(texts: list[str]) -> list[str]:
    width = max(map(len, texts), default=0)
    return [text.rjust(width) for text in texts]


def _decimals(values: Sequence[float]) -> int:
    """Decimals that show what all of the rising `values` are, up to rounding noise; at most 12."""
    apart = min((b - a for a, b in pairwise(values)), default=0.0)
    noise = (apart or max(map(abs, values), default=0.0)) * 1e-3
    return next((n for n in range(12) if all(abs(round(value, n) - value) <= noise for value in values)), 12)


def _power(size: float) -> int:
    return floor(log10(size) + 1e-9) if size > 0 else 0


def _fixed(value: float, digits: int) -> str:
    return f"{value:.{max(0, digits - 1 - _power(abs(value)))}f}"


def _short_exponent(text: str) -> str:
    mantissa, exponent = text.split("e")
    return f"{mantissa}e{int(exponent)}"
