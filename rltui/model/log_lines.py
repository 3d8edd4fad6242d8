"""What a line of a log says: its level, its time; and progress bars as one line that changes.

A bar repaints itself with carriage returns, several of them with cursor movements. In a file that is thousands of
lines; `Folder` gives the lines that a terminal would show.
"""

from __future__ import annotations

import re
import time
from collections.abc import Iterator
from dataclasses import dataclass
from datetime import datetime
from enum import IntEnum

from rltui.text_lines import printable

_HEAD = 160  # characters in which a level or a time is looked for
MAX_UP = 32  # lines above the last one that a bar can reach; more is no bar


class Level(IntEnum):
    """How bad; a filter shows a level and what is above it."""

    DEBUG = 0
    INFO = 1
    WARNING = 2
    ERROR = 3

    @property
    def word(self) -> str:
        """As people write it."""
        return self.name.lower()


_WORDS = {
    "TRACE": Level.DEBUG,
    "DEBUG": Level.DEBUG,
    "INFO": Level.INFO,
    "NOTICE": Level.INFO,
    "WARN": Level.WARNING,
    "WARNING": Level.WARNING,
    "ERROR": Level.ERROR,
    "CRITICAL": Level.ERROR,
    "FATAL": Level.ERROR,
}
_WORD = re.compile(rf"\b({'|'.join(sorted(_WORDS, key=len, reverse=True))})\b")
_RAISED = re.compile(r"(?:[\w.]{1,80}(?:Error|Exception|Interrupt|Exit|Warning))(?::|$)")
# Our own head: ISO-time LEVEL name: text
_OURS = re.compile(
    r"\d{4}-\d\d-\d\d[T ](\d\d:\d\d:\d\d)(?:[.,]\d{1,9})?(?:Z|[+-]\d\d:?\d\d)?\s{1,4}([A-Z]{4,8})\s{1,8}"
)
_WRITTEN = re.compile(r"(\d{4}-\d\d-\d\d)[T ](\d\d:\d\d:\d\d)(?:[.,](\d{1,6}))?\d*(Z|[+-]\d\d:?\d\d)?")
_ATTEMPT = re.compile(r"==== attempt \d{1,9} ")


@dataclass(frozen=True, slots=True)
class Line:
    """A line taken apart: `time` is HH:MM:SS and `level` a word, both "" where the line has no head of ours."""

    time: str
    level: str
    text: str


def taken_apart(line: str) -> Line:
    """The head of a line of ours apart from its text; any other line is all text."""
    head = _OURS.match(line)
    if head is None or head[2] not in _WORDS:
        return Line("", "", line)
    return Line(head[1], head[2], line[head.end() :])


def written(line: str) -> float | None:
    """Epoch seconds at the beginning of a line; without a zone it is the time of this machine. None: no time."""
    found = _WRITTEN.match(line)
    if found is None:
        return None
    try:
        if found[4]:
            return datetime.fromisoformat(f"{found[1]}T{found[2]}.{found[3] or 0:0<6}{found[4]}").timestamp()
        return time.mktime(time.strptime(f"{found[1]} {found[2]}", "%Y-%m-%d %H:%M:%S"))
    except (ValueError, OverflowError):
        return None


def begins_attempt(line: str) -> bool:
    """Whether this is the line that begins a new attempt."""
    return _ATTEMPT.match(line) is not None


class Levels:
    """Levels of the lines of one source in their order: the lines of a traceback have the level of its first."""

    def __init__(self) -> None:
        self._last = Level.INFO
        self._traceback = False

    def of(self, line: str) -> Level:
        """The level of the next line."""
        head = printable(line[:_HEAD])
        if self._traceback or head.startswith("Traceback (most recent call last)"):
            # It ends with the first line that is not indented: the exception itself.
            self._traceback = head[:1] == " " or head.startswith("Traceback") or not head.strip()
            self._last = Level.ERROR
        elif found := _WORD.search(head):
            self._last = _WORDS[found[1]]
        elif raised := _RAISED.match(head):
            self._last = Level.WARNING if raised[0].rstrip(":").endswith("Warning") else Level.ERROR
        elif head[:1] != " ":
            self._last = Level.INFO
        return self._last


@dataclass(frozen=True, slots=True)
class Edit:
    """back 0: a new line. back k: the k-th line from the end now reads so."""

    back: int
    text: str


_MOVES = re.compile(r"\r|\x1b\[(\d{0,4})([ABF])")


class Folder:
    """Follows the cursor through the lines of one source."""

    def __init__(self) -> None:
        self._up = 0  # rows between the cursor's and the one after the last
        self._count = 0  # lines so far, as far as a cursor can reach

    def edits(self, line: str) -> Iterator[Edit]:
        """What raw `line` (without its line feed) does to the lines so far."""
        if self._up == 0 and "\r" not in line and "\x1b[" not in line:
            yield self._write(line)
            self._up = 0
            return
        text, start = "", 0
        for move in _MOVES.finditer(line):
            text = line[start : move.start()] or text
            start = move.end()
            if move[2] is None:
                continue
            if text.strip():
                yield self._write(text)
            text = ""
            rows = int(move[1] or 1)
            self._up = max(0, min(self._count, self._up + (rows if move[2] in "AF" else -rows)))
        text = line[start:] or text
        # The cursor above the last line with nothing to say goes down by the line feed and changes nothing.
        if text.strip() or self._up == 0:
            yield self._write(text)
        self._up = max(0, self._up - 1)

    def _write(self, text: str) -> Edit:
        """Text at the cursor; it stays in its row until the line feed."""
        edit = Edit(self._up, text)
        if self._up == 0:
            self._up, self._count = 1, min(self._count + 1, MAX_UP)
        return edit
