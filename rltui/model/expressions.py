"""Regular expressions that people type, for text that others wrote: the one place where they are made safe to run.

What may take for ever is refused before it runs. What is left runs on lines that are cut, and on the main thread,
where a search can be interrupted, it ends after a moment.
"""

from __future__ import annotations

import re
import signal
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from types import FrameType
from typing import Any, NamedTuple

LINE_LIMIT = 4_096  # characters of a line that are searched
_LEAST = 128  # characters that are searched at once
_STEPS = 17_000_000  # of one search at the worst: a few tenths of a second, in which no other thread runs
_SECONDS = 0.2  # of the processor, not of the clock: a machine that is busy elsewhere is no fault of the expression


class BadExpression(ValueError):
    """The text says what is wrong, `column` (from 0) where, if that is known."""

    def __init__(self, what: str, column: int | None = None) -> None:
        super().__init__(what)
        self.column = column


class Expression(NamedTuple):
    """`piece`: characters that are searched at once. The more ways an expression has to try, the fewer they are.
    `ends`: it asks for the end of the line, which the end of a piece is not."""

    pattern: re.Pattern[str]
    piece: int
    ends: bool

    def found(self, line: str) -> bool:
        """Whether it stands in the first `LINE_LIMIT` characters."""
        return next(self._matches(line), None) is not None

    def spans(self, line: str) -> list[tuple[int, int]]:
        """Where it stands there; matches of nothing are left out."""
        return [match.span() for match in self._matches(line) if match.end() > match.start()]

    def _matches(self, line: str) -> Iterator[re.Match[str]]:
        for start in range(0, max(1, min(len(line), LINE_LIMIT)), self.piece):
            end = start + self.piece
            for match in self.pattern.finditer(line, start, end):
                if not self.ends or match.end() < end or end >= len(line):
                    yield match


def compiled(text: str, flags: re.RegexFlag = re.NOFLAG) -> Expression:
    """Raises BadExpression, also for what may take for ever."""
    try:
        return Expression(re.compile(text, flags), *_safely(text))
    except re.error as error:
        raise BadExpression(f"not a regular expression: {error.msg}", error.pos) from None
    except (RecursionError, OverflowError):
        raise BadExpression("not a regular expression that can be searched for: too large") from None


def _safely(text: str) -> tuple[int, bool]:
    """How much can be searched at once in whatever others wrote, and whether it asks for the end of a line. A search
    in a thread cannot be interrupted."""
    from re import _parser  # type: ignore[attr-defined]  # nothing public tells what an expression is made of

    parsed, piece = _parser.parse(text), LINE_LIMIT
    anchored = len(parsed) > 0 and "AT_BEGINNING" in str(parsed[0])
    while (1 if anchored else piece) * _ways(parsed, piece) > _STEPS:
        piece //= 2
        if piece < _LEAST:
            raise BadExpression("this expression may take for ever: it has too many repeats")
    return piece, "AT_END" in str(parsed)


def _ways(parsed: Any, length: int) -> int:
    """At most so many ways to match it from one place on, in a text of that length. Raises BadExpression where they
    grow with each further character."""
    ways = 1
    for op, argument in parsed:
        name = str(op)
        if name.endswith("REPEAT"):
            least, most, inner = int(argument[0]), min(int(argument[1]), length), argument[2]
            each = _ways(inner, length)
            if most > 1 and each > 1:
                raise BadExpression("this expression may take for ever: it repeats what repeats or has alternatives")
            ways *= 1 + each if most == 1 else max(1, most - least + 1)
        elif name.startswith("GROUPREF"):
            raise BadExpression("this expression may take for ever: it refers back to a group")
        elif name == "BRANCH":
            ways *= sum(_ways(one, length) for one in argument[1])
        elif name in ("SUBPATTERN", "ASSERT", "ASSERT_NOT"):
            ways *= _ways(argument[-1], length)
        elif name == "ATOMIC_GROUP":
            ways *= _ways(argument, length)
    return ways


@contextmanager
def limited() -> Iterator[None]:
    """BadExpression after a moment. `re` looks for signals as it runs; that is the only way to end it.

    Off the main thread, and where there are no such timers, there is no limit.
    """
    if threading.current_thread() is not threading.main_thread() or not hasattr(signal, "setitimer"):
        yield
        return

    def stop(number: int, frame: FrameType | None) -> None:
        raise TimeoutError

    before = signal.signal(signal.SIGVTALRM, stop)
    try:
        signal.setitimer(signal.ITIMER_VIRTUAL, _SECONDS)
        yield
        signal.setitimer(signal.ITIMER_VIRTUAL, 0)
    except TimeoutError:
        raise BadExpression("this expression takes too long on these lines; write it simpler") from None
    finally:
        signal.setitimer(signal.ITIMER_VIRTUAL, 0)
        signal.signal(signal.SIGVTALRM, before)
