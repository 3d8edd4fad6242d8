"""Single TOML values and keys as text: what `--set`, the environment and error texts speak."""

from __future__ import annotations

import datetime
import re
import tomllib
from collections.abc import Iterable, Mapping
from typing import Any

TOO_MANY_DIGITS = "a number with too many digits"

_BARE = re.compile(r"[A-Za-z0-9_-]+")
_BARE_DOTTED = re.compile(r"[A-Za-z0-9_-]+(?:\.[A-Za-z0-9_-]+)*")
_EXPONENT_ZEROS = re.compile(r"(?<=e)([+-])0+(?=\d)")  # Python writes 5e-05
_ESCAPES = {'"': '\\"', "\\": "\\\\", "\n": "\\n", "\t": "\\t", "\r": "\\r", "\b": "\\b", "\f": "\\f"}


def format_value(value: Any) -> str:
    """A Python value as one line of TOML."""
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, str):
        return f'"{"".join(_escape(char) for char in value)}"'
    if isinstance(value, Mapping):
        inner = ", ".join(f"{format_key(str(name))} = {format_value(item)}" for name, item in value.items())
        return f"{{ {inner} }}" if inner else "{}"
    if isinstance(value, list | tuple):
        return f"[{', '.join(format_value(item) for item in value)}]"
    if isinstance(value, datetime.datetime | datetime.date | datetime.time):
        return value.isoformat()
    if isinstance(value, int) and value.bit_length() > 10_000:  # Python refuses to write it in decimal
        return hex(value)
    if isinstance(value, float):
        return _EXPONENT_ZEROS.sub(r"\1", repr(value))
    if value is None or isinstance(value, int):
        return "none" if value is None else str(value)
    return f"<{type(value).__name__}>"


def format_key(name: str) -> str:
    return name if _BARE.fullmatch(name) else format_value(name)


def parse_value(text: str) -> Any:
    """The value of `--set KEY=text`: TOML, or the text itself for a bare word (`lora`, a URL, a path).

    Raises:
        ValueError: text that opens a string, list or table and does not close it as TOML wants.
    """
    text = text.strip()
    try:
        document = tomllib.loads(f"value = {text}")
    except tomllib.TOMLDecodeError as error:
        if text[:1] in "\"'[{":
            raise ValueError(f"not a TOML value: {str(error).partition(' (at ')[0]}") from None
        return text
    except ValueError:
        raise ValueError(TOO_MANY_DIGITS) from None
    value = document["value"]
    if len(document) > 1 or isinstance(value, datetime.date | datetime.time):
        return text
    return value


def split_key(text: str) -> tuple[str, ...]:
    """The parts of a dotted key, quotes removed: `tags."a.b"` -> ("tags", "a.b").

    Raises:
        ValueError: text that is no TOML key.
    """
    if _BARE_DOTTED.fullmatch(text):
        return tuple(text.split("."))
    try:
        node: Any = tomllib.loads(f"{text} = 0")
    except tomllib.TOMLDecodeError:
        raise ValueError("not a TOML key") from None
    parts = []
    while isinstance(node, dict):
        if len(node) != 1:
            raise ValueError("not a TOML key")
        name, node = next(iter(node.items()))
        parts.append(name)
    return tuple(parts)


def join_key(parts: Iterable[str]) -> str:
    """The inverse of `split_key`."""
    return ".".join(map(format_key, parts))


def same(a: Any, b: Any) -> bool:
    """Equal in value and in type, all the way down; NaN equals NaN, 0.0 is not -0.0."""
    if type(a) is not type(b):
        return False
    if isinstance(a, dict):
        return a.keys() == b.keys() and all(same(value, b[name]) for name, value in a.items())
    if isinstance(a, list):
        return len(a) == len(b) and all(map(same, a, b))
    return repr(a) == repr(b)


def _escape(char: str) -> str:
    if char in _ESCAPES:
        return _ESCAPES[char]
    return char if char.isprintable() else f"\\U{ord(char):08X}"
