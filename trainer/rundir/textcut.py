"""Episodes with too much text.

The middle of the longest strings is cut, and it is said how much (WIRE 5.6).
"""

from __future__ import annotations

from typing import Any

from trainer.rundir.jsonl import Json, encode

EPISODE_TEXT_BYTES = 4 << 20
_KEPT_ALWAYS = 2_048  # strings up to this many characters are not looked at


def encode_episode(row: Json, limit: int = EPISODE_TEXT_BYTES) -> bytes:
    """The text line without its LF, about `limit` bytes at most.

    A string that was too long becomes `[head, {"cut": bytes}, tail]`. Where the mass is not in strings, what
    the app added (`app`, `warnings`, `forced`, `tries`) gives way as a whole, as `{"cut": bytes}`.
    """
    line = encode(row)
    if len(line) <= limit:
        return line
    lengths: list[int] = []
    _measure(row, lengths)
    row = _cut(row, _longest_allowed(lengths, limit - (len(line) - sum(lengths))))
    line = encode(row)
    for name in ("app", "warnings", "forced", "tries"):
        if len(line) > limit:
            row[name] = {"cut": len(encode(row[name]))}
            line = encode(row)
    return line


def text_of(value: Any) -> str:
    """A text field as a person reads it, whether it was cut or not."""
    if isinstance(value, str):
        return value
    if isinstance(value, list) and len(value) == 3 and isinstance(value[1], dict):
        return f"{value[0]}\n[{value[1].get('cut')} bytes cut]\n{value[2]}"
    return "" if value is None else encode(value).decode()


def _measure(value: Any, lengths: list[int]) -> None:
    if isinstance(value, str):
        if len(value) > _KEPT_ALWAYS:
            lengths.append(_bytes(value))
    elif isinstance(value, dict):
        for item in value.values():
            _measure(item, lengths)
    elif isinstance(value, list):
        for item in value:
            _measure(item, lengths)


def _longest_allowed(lengths: list[int], room: int) -> int:
    """The greatest L with sum(min(length, L)) <= room: only the longest are touched, all to one length."""
    left = len(lengths)
    for length in sorted(lengths):
        if length * left > room:
            return max(_KEPT_ALWAYS, room // left)
        room -= length
        left -= 1
    return max(lengths, default=0)


def _cut(value: Any, limit: int) -> Any:
    if isinstance(value, str):
        if len(value) <= _KEPT_ALWAYS or (size := _bytes(value)) <= limit:
            return value
        # In characters, by this string's own bytes per character; some room for the marker itself.
        keep = max(1, (limit - 64) * len(value) // size // 2)
        head, tail = value[:keep], value[-keep:]
        return [head, {"cut": size - _bytes(head) - _bytes(tail)}, tail]
    if isinstance(value, dict):
        return {key: _cut(item, limit) for key, item in value.items()}
    if isinstance(value, list):
        return [_cut(item, limit) for item in value]
    return value


def _bytes(text: str) -> int:
    """Bytes of a string in a line: what JSON escapes is longer there."""
    return len(encode(text)) - 2
