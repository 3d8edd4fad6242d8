"""Lines of a fixed length: row n is at byte n x length, so a list of 100,000 episodes opens at once.

A line that would be too long gives way in the order below and says so by `"cut": true`: its text line has
it all.
"""

from __future__ import annotations

from typing import Any

from trainer.rundir.jsonl import Json, digits, encode
from trainer.rundir.layout import INDEX_BYTES, UPDATE_BYTES

DETAIL_BYTES = 120
_INT_LIMIT = 1 << 63
# Words are shortened first, then fields are left out in order (a reader takes a missing one as null);
# what finds an episode is never touched.
_INDEX_WORDS = (("cid", 40), ("stop", 16), ("excl", 24), ("cid", 12))
_INDEX_GIVES_WAY = tuple("sr je jo O wall cid stop tok ver t turns try R seed".split())
_UPDATE_KEYS = ("n", "attempt", "step", "iteration", "kind")


def index_line(row: Json) -> bytes:
    """512 bytes with the LF. ValueError: a number needs more than 64 bits."""
    row = {key: _six_digits(key, value) for key, value in row.items()}
    line = encode(row)
    if len(line) < INDEX_BYTES:
        return _padded(line, INDEX_BYTES)
    row["cut"] = True
    for key, limit in _INDEX_WORDS:
        if isinstance(row.get(key), str):
            row[key] = row[key][:limit]
            if len(line := encode(row)) < INDEX_BYTES:
                return _padded(line, INDEX_BYTES)
    for key in _INDEX_GIVES_WAY:
        row.pop(key, None)
        if len(line := encode(row)) < INDEX_BYTES:
            return _padded(line, INDEX_BYTES)
    row["excl"] = row.get("excl") and "?"  # excluded or not stays visible
    return _padded(encode(row), INDEX_BYTES)


def update_line(row: Json) -> bytes:
    """320 bytes with the LF.

    `detail` is shortened to 120 bytes, then goes; then the other fields, last first.
    """
    row = {key: _six_digits(key, value) for key, value in row.items()}
    if row.get("detail") is not None:
        row["detail"] = short_detail(row["detail"])
    line = encode(row)
    if len(line) < UPDATE_BYTES:
        return _padded(line, UPDATE_BYTES)
    row["cut"] = True
    others = [key for key in row if key not in (*_UPDATE_KEYS, "detail", "excl", "branch", "cut")]
    for key in ("detail", *reversed(others), "branch", "excl"):
        row.pop(key, None)
        if len(line := encode(row)) < UPDATE_BYTES:
            return _padded(line, UPDATE_BYTES)
    row["kind"] = row["kind"][:16]
    return _padded(encode(row), UPDATE_BYTES)


def short_detail(detail: Any, limit: int = DETAIL_BYTES) -> Any:
    """`detail` in at most `limit` bytes of JSON: its longest words are shortened, else it becomes null."""
    if isinstance(detail, str):
        detail = {"what": detail}
    if len(encode(detail)) <= limit:
        return detail
    if not isinstance(detail, dict):
        return None
    for words in (60, 30, 15, 6):
        short = {str(key)[:20]: _shortened(value, words) for key, value in detail.items()}
        if len(encode(short)) <= limit:
            return short
    return None


def _shortened(value: Any, limit: int) -> Any:
    if value is None or isinstance(value, (bool, int, float)):
        return value
    text = value if isinstance(value, str) else encode(value).decode()
    return text if len(text) <= limit else text[: limit - 1] + "…"


def _six_digits(key: str, value: Any) -> Any:
    if isinstance(value, bool):
        return value
    if isinstance(value, int):
        if not -_INT_LIMIT <= value < _INT_LIMIT:
            raise ValueError(f"{key} = {value} needs more than 64 bits")
        return value
    if isinstance(value, float):
        # An epoch needs ten digits before the point: there it is six behind it.
        return round(value, 6) if key == "t" else digits(value)
    if isinstance(value, (list, tuple)):
        return [_six_digits(key, item) for item in value]
    return value


def _padded(line: bytes, length: int) -> bytes:
    if len(line) >= length:
        raise ValueError(f"a line of {len(line)} bytes does not fit into {length}")
    return line + b" " * (length - 1 - len(line)) + b"\n"
