"""What stands behind the `?` of an address, checked. Names that are not asked for are ignored (WIRE 3.8)."""

from __future__ import annotations

import math

from starlette.requests import Request

from rltui.server.answers import Refused

MAX_TEXT = 300
BIGGEST = (1 << 53) - 1


def text(request: Request, name: str) -> str | None:
    """None: it is not given, or empty."""
    value = request.query_params.get(name) or None
    if value is not None and len(value) > MAX_TEXT:
        raise Refused(400, "malformed", f"{name} is longer than {MAX_TEXT} characters")
    return value


def count(request: Request, name: str, least: int = 0) -> int | None:
    """A whole number from `least` on. None: it is not given."""
    value = text(request, name)
    if value is None:
        return None
    try:
        number = int(value)
    except ValueError:
        number = least - 1
    if not least <= number <= BIGGEST:
        raise Refused(400, "malformed", f"{name} is a whole number from {least} on, not {value[:40]!a}")
    return number


def real(request: Request, name: str) -> float | None:
    value = text(request, name)
    if value is None:
        return None
    try:
        number = float(value)
    except ValueError:
        number = math.nan
    if not math.isfinite(number):
        raise Refused(400, "malformed", f"{name} is a number, not {value[:40]!a}")
    return number


def limit(request: Request, default: int, most: int) -> int:
    """How many are wanted; more than there may be at a time is as many as there may be."""
    found = count(request, "limit", 1)
    return default if found is None else min(found, most)


def flag(request: Request, name: str, default: bool = False) -> bool:
    value = text(request, name)
    return default if value is None else value.lower() not in ("0", "false", "no")


def choice(request: Request, name: str, of: tuple[str, ...]) -> str | None:
    value = text(request, name)
    if value is not None and value not in of:
        raise Refused(400, "malformed", f"{name} is one of {', '.join(of)}, not {value[:40]!a}")
    return value
