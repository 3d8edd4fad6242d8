"""Small readers of untrusted JSON: nothing here raises on any input."""

from __future__ import annotations

import math
import re
from typing import Any
from urllib.parse import parse_qs, urlsplit

Json = dict[str, Any]


def mapping(value: object) -> Json:
    """The object itself, or an empty one where something else stands."""
    return value if isinstance(value, dict) else {}


def listing(value: object) -> list[Any]:
    """The array itself, or an empty one where something else stands."""
    return value if isinstance(value, list) else []


def finite(value: object) -> float | None:
    """A finite JSON number as float, else None. Booleans and strings are not numbers."""
    if isinstance(value, bool) or not isinstance(value, (int, float)):
        return None
    try:
        number = float(value)
    except OverflowError:  # an integer over 1.8e308
        return None
    return number if math.isfinite(number) else None


def count(value: object) -> int | None:
    """A whole number in [0, 2^31) as int, else None."""
    number = finite(value)
    return int(number) if number is not None and 0 <= number < 2**31 and number == int(number) else None


def text_of(value: object) -> str | None:
    """A non-empty string, else None."""
    return value if isinstance(value, str) and value else None


def cid_of_url(url: str) -> str | None:
    """The correlation id that an inference URL names, `?cid=ID` or `/cid/ID/v1`, else None.

    Old helpers append the path behind the query (`?cid=ID/v1/chat/completions`): cut there.
    """
    try:
        parts = urlsplit(url)
        query = parse_qs(parts.query)
    except ValueError:
        return None
    if "cid" in query:
        return query["cid"][0].split("/", 1)[0] or None
    match = re.search(r"/cid/([^/]+)", parts.path)
    return match[1] if match else None


_SERVER_ERROR = re.compile(
    r"^\s*(5\d\d)\b|\b(?:http|status|code|server error)\b[^0-9\n]{0,16}(5\d\d)\b"
    r"|\b(5\d\d)\s+(?:internal server|bad gateway|service unavailable|gateway time)",
    re.IGNORECASE,
)


def server_error(error: object) -> int | None:
    """An HTTP-like status >= 500 in `info.error` (number, object or message), else None."""
    for value in (error, *(mapping(error).get(k) for k in ("status", "status_code", "code"))):
        if (status := count(value)) is not None and 500 <= status <= 599:
            return status
        if isinstance(value, str) and (match := _SERVER_ERROR.search(value[:2_000])):
            return int(match[1] or match[2] or match[3])
    message = mapping(error).get("message")
    return server_error(message) if isinstance(message, str) else None
