"""Reading files that are being written: cursors over whole lines (WIRE 5.2)."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Any, NamedTuple

import msgspec

from trainer.rundir.jsonl import Json, decode_object
from trainer.rundir.layout import RunPaths, read_range

SLICE_BYTES = 8 << 20  # read at a time, unless a single line is longer
MAX_LINE_BYTES = 64 << 20  # what goes on without an end for longer is no line, and is passed over in pieces


class Cursor(NamedTuple):
    """How far a file has been read. Falsy offset and inode: from the start."""

    inode: int = 0
    offset: int = 0


class Damage(NamedTuple):
    """A line inside a file that cannot be read, and is passed over."""

    path: Path
    offset: int
    reason: str


class Slice(msgspec.Struct):
    """Lines after a cursor, and the cursor after them."""

    rows: list[Json]
    cursor: Cursor
    offsets: list[int]  # byte of each row
    restarted: bool = False  # another file, or a shorter one: read again from 0, drop what is known of it
    damaged: list[Damage] = []
    more: bool = False  # there are further whole lines already


def read_lines(
    paths: RunPaths,
    name: str,
    cursor: Cursor | None = None,
    limit: int | None = None,
    *,
    max_bytes: int | None = None,
    containing: bytes = b"",
    decode: Callable[[bytes], Json] = decode_object,
) -> Slice:
    """Whole lines after the cursor, about `max_bytes` (8 MB) or `limit` of them; a line without its LF is not
    there yet. Lines without `containing` are passed over unread.

    A file that is not there has no lines.
    """
    cursor = cursor or Cursor()
    try:
        fd = paths.open(name)
    except FileNotFoundError:
        return Slice([], Cursor(), [], restarted=cursor.offset > 0)
    try:
        stat = os.fstat(fd)
        restarted = cursor.offset > 0 and (stat.st_ino != cursor.inode or stat.st_size < cursor.offset)
        start = 0 if restarted else cursor.offset
        data, more = _whole_lines(fd, start, stat.st_size, max_bytes or SLICE_BYTES)
    finally:
        os.close(fd)
    rows: list[Json] = []
    offsets: list[int] = []
    damaged: list[Damage] = []
    at = start
    if not data.endswith(b"\n") and data:
        damaged.append(Damage(paths.root / name, start, f"a line of more than {MAX_LINE_BYTES >> 20} MB"))
        return Slice([], Cursor(stat.st_ino, start + len(data)), [], restarted, damaged, True)
    if containing not in data:
        return Slice([], Cursor(stat.st_ino, start + len(data)), [], restarted, [], more)
    for line in _split(data):
        if limit is not None and len(rows) >= limit:
            more = True
            break
        if containing not in line:
            at += len(line)
            continue
        try:
            rows.append(decode(line))
            offsets.append(at)
        except (ValueError, msgspec.MsgspecError, RecursionError) as error:
            if line.strip():
                damaged.append(Damage(paths.root / name, at, str(error)))
        at += len(line)
    return Slice(rows, Cursor(stat.st_ino, at), offsets, restarted, damaged, more)


def seek_line(paths: RunPaths, name: str, key: Callable[[Json], Any], value: Any) -> Cursor:
    """A cursor at most a few KB before the first line whose `key` exceeds `value`.

    The key grows over the file; KeyError, TypeError or ValueError: the line has none.
    """
    try:
        fd = paths.open(name)
    except FileNotFoundError:
        return Cursor()
    try:
        stat = os.fstat(fd)
        low, high = 0, stat.st_size
        while high - low > 1 << 14:
            middle = (low + high) // 2
            found = _first_key(fd, middle, high, key)
            if found is None or found[1] > value:
                high = middle
            else:
                low = found[0]
        return Cursor(stat.st_ino, low)
    finally:
        os.close(fd)


def _first_key(fd: int, start: int, end: int, key: Callable[[Json], Any]) -> tuple[int, Any] | None:
    """Offset and key of the first readable line that begins after `start`.

    None: there is none before `end`.
    """
    at = start
    data = b""
    while at < end:
        part = read_range(fd, at, min(at + (1 << 14), end))
        if not part:
            break
        at += len(part)
        data += part
        lines = data.split(b"\n")
        offset = start + len(lines[0]) + 1
        for line in lines[1:-1]:
            try:
                return offset, key(decode_object(line))
            except (ValueError, KeyError, TypeError):
                offset += len(line) + 1
    return None


def _whole_lines(fd: int, start: int, size: int, want: int) -> tuple[bytes, bool]:
    """Lines from `start`, and whether there is more after them. Without an LF at its end: a piece of no line."""
    while True:
        end = min(size, start + want)
        data = read_range(fd, start, end)
        last = data.rfind(b"\n") + 1
        if last or end == size:
            return data[:last], end < size
        if want >= MAX_LINE_BYTES:
            return data, True
        want *= 4  # one line is longer than all this


def _split(data: bytes) -> Iterable[bytes]:
    """Lines with their LF (bytes.splitlines would also split at a CR)."""
    start = 0
    while (end := data.find(b"\n", start) + 1) > 0:
        yield data[start:end]
        start = end
