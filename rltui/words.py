"""How numbers are said: short, and never a guess."""

from __future__ import annotations

import math
from pathlib import Path


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


def size(count: float) -> str:
    """Bytes in decimal units: 98 GB, 1.6 GB, 820 MB, 4 kB."""
    for unit, value in (("TB", 1e12), ("GB", 1e9), ("MB", 1e6), ("kB", 1e3)):
        if count >= 0.9995 * value:
            number = count / value
            return f"{number:.1f} {unit}" if number < 9.95 and value >= 1e9 else f"{number:.0f} {unit}"
    return f"{count:.0f} B"


def amount(count: float) -> str:
    """Parameters or tokens: 8.2 B, 135 M, 98 k, 640."""
    for unit, value in (("B", 1e9), ("M", 1e6), ("k", 1e3)):
        if count >= 0.9995 * value:
            number = count / value
            return f"{number:.1f} {unit}" if number < 9.95 else f"{number:.0f} {unit}"
    return f"{count:.0f}"


def shortened(path: Path) -> str:
    """The whole path, with ~ for the home."""
    path, home = path.absolute(), Path.home()
    return f"~/{path.relative_to(home)}" if path != home and path.is_relative_to(home) else str(path)


def batches(ready: int, need: int) -> str:
    """'4 full batches of 32': what so many queued episodes make."""
    full = ready // need
    return f"{full} full batch{'es' * (full != 1)} of {need}"


def duration(seconds: float | None) -> str:
    """'41 s', '2 m 05 s', '3 h 12 m', '2 d 04 h'; '-' for an unknown one."""
    if seconds is None:
        return "-"
    s = max(0, round(seconds))
    if s < 60:
        return f"{s} s"
    if s < 3600:
        return f"{s // 60} m {s % 60:02d} s"
    if s < 86_400:
        return f"{s // 3600} h {s % 3600 // 60:02d} m"
    return f"{s // 86_400} d {s % 86_400 // 3600:02d} h"
