"""Arithmetic on "#rrggbb": contrast, blends, the nearest of 256."""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from functools import cache


def rgb(color: str) -> tuple[int, int, int]:
    value = int(color[1:], 16)
    return value >> 16, value >> 8 & 255, value & 255


def contrast(one: str, other: str) -> float:
    """The ratio of WCAG 2, 1 to 21."""
    dark, light = sorted((_luminance(one), _luminance(other)))
    return (light + 0.05) / (dark + 0.05)


def readable_on(fill: str, candidates: Iterable[str]) -> str:
    return max(candidates, key=lambda color: contrast(color, fill))


def blend(stops: Sequence[str], x: float) -> str:
    """The colour at `x` in 0..1 between equally spaced stops, mixed in Oklab so that steps look alike."""
    place = x * (len(stops) - 1)
    i = min(int(place), len(stops) - 2)
    low, high = oklab(stops[i]), oklab(stops[i + 1])
    share = place - i
    return _from_oklab([a + (b - a) * share for a, b in zip(low, high, strict=True)])


def distance(one: str, other: str) -> float:
    """How different two colours look (Oklab); black and white are 1 apart."""
    return math.sqrt(sum((a - b) ** 2 for a, b in zip(oklab(one), oklab(other), strict=True)))


@cache
def nearest_256(color: str) -> str:
    """What to send so that a 256-colour terminal shows what looks most like `color`, as "#rrggbb".

    rich converts at the output, and left alone turns dark blue-greys into saturated navy. What is returned here it
    converts to exactly the entry that was chosen.
    """
    shown = _palette_256()
    return min(shown, key=lambda sent: distance(color, shown[sent]))


@cache
def _palette_256() -> dict[str, str]:
    """Colour to send: colour shown. Without the first 16, which are the user's own."""
    levels = (0, 95, 135, 175, 215, 255)
    cube = [f"#{r:02x}{g:02x}{b:02x}" for r in levels for g in levels for b in levels if not r == g == b]
    # rich picks a grey by lightness in 25 equal steps; the terminal's own 24 are not quite there
    greys = {_grey(round(step * 10.2)): _grey(10 * step - 2) for step in range(1, 25)}
    return {color: color for color in ("#000000", "#ffffff", *cube)} | greys


def _grey(level: int) -> str:
    return f"#{level:02x}{level:02x}{level:02x}"


def _linear(channel: int) -> float:
    share = channel / 255
    return share / 12.92 if share <= 0.04045 else ((share + 0.055) / 1.055) ** 2.4


def _luminance(color: str) -> float:
    red, green, blue = map(_linear, rgb(color))
    return 0.2126 * red + 0.7152 * green + 0.0722 * blue


@cache
def oklab(color: str) -> tuple[float, float, float]:
    r, g, b = map(_linear, rgb(color))
    long = (0.4122214708 * r + 0.5363325363 * g + 0.0514459929 * b) ** (1 / 3)
    medium = (0.2119034982 * r + 0.6806995451 * g + 0.1073969566 * b) ** (1 / 3)
    short = (0.0883024619 * r + 0.2817188376 * g + 0.6299787005 * b) ** (1 / 3)
    return (
        0.2104542553 * long + 0.7936177850 * medium - 0.0040720468 * short,
        1.9779984951 * long - 2.4285922050 * medium + 0.4505937099 * short,
        0.0259040371 * long + 0.7827717662 * medium - 0.8086757660 * short,
    )


def _from_oklab(lab: Sequence[float]) -> str:
    light, green_red, blue_yellow = lab
    long = (light + 0.3963377774 * green_red + 0.2158037573 * blue_yellow) ** 3
    medium = (light - 0.1055613458 * green_red - 0.0638541728 * blue_yellow) ** 3
    short = (light - 0.0894841775 * green_red - 1.2914855480 * blue_yellow) ** 3
    channels = (
        4.0767416621 * long - 3.3077115913 * medium + 0.2309699292 * short,
        -1.2684380046 * long + 2.6097574011 * medium - 0.3413193965 * short,
        -0.0041960863 * long - 0.7034186147 * medium + 1.7076147010 * short,
    )
    return "#" + "".join(f"{_gamma(channel):02x}" for channel in channels)


def _gamma(share: float) -> int:
    share = min(1.0, max(0.0, share))
    return round(255 * (12.92 * share if share <= 0.0031308 else 1.055 * share ** (1 / 2.4) - 0.055))
