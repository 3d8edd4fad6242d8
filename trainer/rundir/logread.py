"""Reading `logs/NAME.log` while it grows and is rotated: its pieces `.4` … `.1` and itself are one text.

A place in it is (inode, offset): a piece keeps its inode when it gets another name.
"""

from __future__ import annotations

import os
import re
import stat
from typing import NamedTuple

from trainer.rundir.layout import RunPaths, read_range

_NAME = re.compile(r"([A-Za-z0-9][A-Za-z0-9._-]*\.log)(?:\.(\d{1,3}))?\Z")
MAX_LOGS = 500  # a folder full of names must not cost more than this
MAX_SCANNED = 10_000
UNFINISHED_BYTES = 4_096


class Place(NamedTuple):
    """A byte of a log."""

    inode: int
    offset: int


class Piece(NamedTuple):
    """A file of a log; `name` is relative to the run."""

    name: str
    inode: int
    size: int


class LogLines(NamedTuple):
    """Whole lines without their LF, and where they begin and end in the log (None: it is empty)."""

    lines: list[bytes]
    start: Place | None
    end: Place | None
    before: bool  # there is text before `start`
    after: bool  # there are whole lines after `end` already
    unfinished: bytes = b""


_NOTHING = LogLines([], None, None, False, False)


def list_logs(paths: RunPaths) -> dict[str, list[Piece]]:
    """Each log with its pieces, oldest first. Links and what is no plain file are left out."""
    found: dict[str, list[tuple[int, Piece]]] = {}
    try:
        with os.scandir(paths.logs) as entries:
            for count, entry in enumerate(entries):
                match = _NAME.match(entry.name)
                if count >= MAX_SCANNED or (len(found) >= MAX_LOGS and (not match or match[1] not in found)):
                    break
                if match is None:
                    continue
                try:
                    about = entry.stat(follow_symlinks=False)
                except FileNotFoundError:  # renamed since
                    continue
                if stat.S_ISREG(about.st_mode):
                    piece = Piece(f"logs/{entry.name}", about.st_ino, about.st_size)
                    found.setdefault(match[1], []).append((-int(match[2] or 0), piece))
    except (FileNotFoundError, NotADirectoryError):
        return {}
    return {name: [piece for _, piece in sorted(found[name])] for name in sorted(found)}


def read_forward(paths: RunPaths, name: str, place: Place | None, limit: int) -> LogLines:
    """Lines after `place` (None: from the start), about `limit` bytes of them.

    A piece that was rotated away, or cut off, since: from the start of the newest.
    """
    pieces = list_logs(paths).get(name, [])
    if not pieces:
        return _NOTHING
    at, offset = _find(pieces, place)
    while True:
        piece, last = pieces[at], at == len(pieces) - 1
        data = _read(paths, piece, offset, offset + limit)
        if data is None:  # renamed in between: the next look finds it
            return LogLines([], place, Place(piece.inode, offset), at > 0 or offset > 0, True)
        end = data.rfind(b"\n") + 1
        if end == 0 and len(data) >= limit:
            end = len(data)  # a line longer than this comes in pieces
        if end == 0 and not last:
            if not data:
                at, offset = at + 1, 0
                continue
            end = len(data)  # rotated in the middle of a line: no more of it will come here
        start, stop = Place(piece.inode, offset), Place(piece.inode, offset + end)
        after = b"\n" in data[end:] or piece.size > offset + len(data) or not last
        rest = data[end:][-UNFINISHED_BYTES:] if last and not after else b""
        return LogLines(_lines(data[:end]), start, stop, at > 0 or offset > 0, after, rest)


def read_back(paths: RunPaths, name: str, place: Place | None, limit: int) -> LogLines:
    """The lines that end at `place` (None: at the end of the log), about `limit` bytes of them."""
    pieces = list_logs(paths).get(name, [])
    if not pieces:
        return _NOTHING
    at, offset = (len(pieces) - 1, pieces[-1].size) if place is None else _find(pieces, place)
    while offset == 0 and at > 0:
        at -= 1
        offset = pieces[at].size
    piece, last = pieces[at], at == len(pieces) - 1
    start = max(0, offset - limit)
    data = _read(paths, piece, start, offset)
    if data is None:
        here = Place(piece.inode, offset)
        return LogLines([], here, here, True, True)
    whole = data.rfind(b"\n") + 1 if place is None and last else len(data)
    rest, data = data[whole:][-UNFINISHED_BYTES:], data[:whole]
    if start > 0 and 0 < (first := data.find(b"\n", 0, -1) + 1):  # the first line began before
        start, data = start + first, data[first:]
    begin, end = Place(piece.inode, start), Place(piece.inode, start + len(data))
    return LogLines(_lines(data), begin, end, at > 0 or start > 0, False, rest)


def _find(pieces: list[Piece], place: Place | None) -> tuple[int, int]:
    if place is None:
        return 0, 0
    for at, piece in enumerate(pieces):
        if piece.inode == place.inode and place.offset <= piece.size:
            return at, place.offset
    return len(pieces) - 1, 0


def _read(paths: RunPaths, piece: Piece, start: int, end: int) -> bytes | None:
    """Bytes of a piece; None: it has got another name since it was listed."""
    try:
        fd = paths.open(piece.name)
    except FileNotFoundError:
        return None
    try:
        return read_range(fd, start, end) if os.fstat(fd).st_ino == piece.inode else None
    finally:
        os.close(fd)


def _lines(data: bytes) -> list[bytes]:
    lines = data.split(b"\n")
    if not lines[-1]:
        lines.pop()
    return [line.removesuffix(b"\r") for line in lines]
