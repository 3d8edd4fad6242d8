"""JSON lines.

Compact, UTF-8, no NaN or infinity, and no value of a hostile task app that stops the writing.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from datetime import UTC, datetime
from typing import Any

import msgspec

Json = dict[str, Any]
_MAX_DEPTH = 60


def _plain(value: Any) -> Any:
    """numpy scalars and arrays by their own conversion, anything else by its text."""
    if hasattr(value, "tolist"):
        return value.tolist()
    return str(value)


_encoder = msgspec.json.Encoder(enc_hook=_plain)
_decoder = msgspec.json.Decoder()


def encode(value: Any) -> bytes:
    """Compact JSON.

    Non-finite numbers become null, lone surrogates `?`, what nests too deep its first words.
    """
    try:
        return _encoder.encode(value)
    except (UnicodeEncodeError, OverflowError, RecursionError, TypeError, ValueError):
        return _encoder.encode(_cleaned(value, 0))


def encode_line(value: Any) -> bytes:
    return encode(value) + b"\n"


def decode(data: bytes) -> Any:
    """The value of one line. ValueError: it is not JSON in UTF-8."""
    try:
        return _decoder.decode(data)
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError) as error:
        raise ValueError(str(error)) from error


def decode_object(data: bytes) -> Json:
    """As `decode`, for a line that must be an object."""
    value = decode(data)
    if not isinstance(value, dict):
        raise ValueError("not a JSON object")
    return value


def _cleaned(value: Any, depth: int) -> Any:
    if isinstance(value, str):
        return value.encode("utf-8", "replace").decode("utf-8")
    if isinstance(value, bool) or value is None:
        return value
    if isinstance(value, int):
        return value if -(1 << 63) <= value < 1 << 64 else str(value)
    if isinstance(value, float):
        return value if math.isfinite(value) else None
    if depth > _MAX_DEPTH:
        return "(nested too deep)"
    if isinstance(value, Mapping):
        return {_cleaned(str(key), depth): _cleaned(item, depth + 1) for key, item in value.items()}
    if isinstance(value, (list, tuple, set, frozenset)):
        return [_cleaned(item, depth + 1) for item in value]
    if isinstance(value, msgspec.Struct):
        return {
            field.encode_name: _cleaned(getattr(value, field.name), depth + 1)
            for field in msgspec.structs.fields(value)
        }
    return _cleaned(_plain(value), depth + 1)


def digits(value: float | None, count: int = 6) -> float | None:
    """A number with `count` significant digits; None for what is missing or not finite."""
    if value is None or not math.isfinite(value):
        return None
    return float(f"{value:.{count}g}")


def iso(seconds: float) -> str:
    """ISO 8601 in UTC with milliseconds, as every `*_at` field has it."""
    return datetime.fromtimestamp(seconds, UTC).isoformat(timespec="milliseconds").replace("+00:00", "Z")


def from_iso(text: str) -> float:
    """Epoch seconds. ValueError: not ISO 8601; a time without zone is taken as UTC."""
    moment = datetime.fromisoformat(text)
    return (moment if moment.tzinfo else moment.replace(tzinfo=UTC)).timestamp()
