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
from typing import Any

LINE_LIMIT = 4_096  # characters of a line that are searched at once
_OPEN = 64  # times, from which on a repeat has no end
_MOST_OPEN = 3
_SECONDS = 0.2


class BadExpression(ValueError):
    """The text says what is wrong, `column` (from 0) where, if that is known."""

    def __init__(self, what: str, column: int | None = None) -> None:
        super().__init__(what)
        self.column = column


def compiled(text: str, flags: re.RegexFlag = re.NOFLAG) -> re.Pattern[str]:
    """Raises BadExpression, also for what may take for ever."""
    try:
        pattern, slow = re.compile(text, flags), _slow(text)
    except re.error as error:
        raise BadExpression(f"not a regular expression: {error.msg}", error.pos) from None
    except (RecursionError, OverflowError):
        raise BadExpression("not a regular expression that can be searched for: too large") from None
    if slow:
        raise BadExpression(f"this expression may take for ever: {slow}")
    return pattern


def _slow(text: str) -> str:
    """Why it cannot be run on what others wrote; "" if it can. A search in a thread cannot be interrupted."""
    from re import _parser  # type: ignore[attr-defined]  # nothing public tells what an expression is made of

    repeats = 0

    def walk(parsed: Any, inside: bool) -> str:
        nonlocal repeats
        for op, argument in parsed:
            name = str(op)
            if name in ("MAX_REPEAT", "MIN_REPEAT"):
                endless = int(argument[1]) > _OPEN
                if endless and inside:
                    return "it repeats what repeats"
                repeats += endless
                if why := walk(argument[2], inside or endless):
                    return why
                continue
            if name == "GROUPREF":
                return "it refers back to a group"
            parts = argument if isinstance(argument, tuple | list) else ()
            for part in (piece for one in parts for piece in (one if isinstance(one, list) else [one])):
                if isinstance(part, _parser.SubPattern) and (why := walk(part, inside)):
                    return why
        return ""

    return walk(_parser.parse(text), False) or ("more than three open repeats" if repeats > _MOST_OPEN else "")


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

    before = signal.signal(signal.SIGALRM, stop)
    try:
        signal.setitimer(signal.ITIMER_REAL, _SECONDS)
        yield
        signal.setitimer(signal.ITIMER_REAL, 0)
    except TimeoutError:
        raise BadExpression("this expression takes too long on these lines; write it simpler") from None
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0)
        signal.signal(signal.SIGALRM, before)
