"""How numbers are said on the screen: short, and never a guess."""

from __future__ import annotations

import math


def short(value: float | None) -> str:
    """As many digits as say enough: 0.412, 12.3, 1234, 1.2e+06, 3.1e-05; '-' for none."""
    if value is None or not math.isfinite(value):
        return "-"
    size = abs(value)
    if size == 0:
        return "0"
    if size < 1e-3 or size >= 1e5:
        return f"{value:.1e}"
    if size >= 1000:
        return f"{value:.0f}"
    return f"{value:.{3 if size < 10 else 1}f}"
