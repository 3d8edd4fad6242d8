"""Finding text in lines that others wrote: plain or /regex/, never longer than a moment."""

from __future__ import annotations

import re
import signal
import threading
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from types import FrameType

LINE_LIMIT = 4_096  # characters of a line that are searched
SLICE_LINES = 2_000  # lines to search before others have their turn
_SLICE_SECONDS = 0.2


class FindError(ValueError):
    """What was typed cannot be searched for; the message says why."""


class Finder:
    """`text` as people type it: /regex/ between slashes, anything else is plain and minds case if it has capitals."""

    def __init__(self, text: str, *, regex: bool = False) -> None:
        """`regex`: the text is an expression as it stands."""
        self.text = text
        slashed = not regex and len(text) > 2 and text.startswith("/") and text.endswith("/")
        source = text if regex else text[1:-1] if slashed else re.escape(text)
        try:
            self._pattern = re.compile(source, 0 if any(char.isupper() for char in text) else re.IGNORECASE)
        except re.error as error:
            where = f" at column {error.pos + slashed + 1}" if error.pos is not None else ""
            raise FindError(f"not a regular expression: {error.msg}{where}") from None
        except (RecursionError, OverflowError):
            raise FindError("not a regular expression that can be searched for: too large") from None

    def matches(self, line: str) -> bool:
        """Whether the line has it, in its first `LINE_LIMIT` characters."""
        return self._pattern.search(line, 0, LINE_LIMIT) is not None

    def spans(self, row: str) -> list[tuple[int, int]]:
        """Where it stands in one row of the screen, for the highlight. Raises FindError if that takes too long."""
        with _limited():
            return [found.span() for found in self._pattern.finditer(row, 0, LINE_LIMIT) if found.end() > found.start()]

    def among(self, lines: Sequence[str]) -> list[str]:
        """Those that have it. Raises FindError if the expression takes too long."""
        with _limited():
            return [line for line in lines if self.matches(line)]

    def first(self, lines: Iterator[tuple[int, str]]) -> int | None:
        """The number of the first line that has it. Raises FindError if the expression takes too long."""
        with _limited():
            return next((number for number, line in lines if self.matches(line)), None)


@contextmanager
def _limited() -> Iterator[None]:
    """FindError after a moment. `re` looks for signals as it runs; that is the only way to end it.

    Off the main thread, and where there are no such timers, there is no limit.
    """
    if threading.current_thread() is not threading.main_thread() or not hasattr(signal, "setitimer"):
        yield
        return

    def stop(number: int, frame: FrameType | None) -> None:
        raise TimeoutError

    before = signal.signal(signal.SIGALRM, stop)
    try:
        signal.setitimer(signal.ITIMER_REAL, _SLICE_SECONDS)
        yield
        signal.setitimer(signal.ITIMER_REAL, 0)
    except TimeoutError:
        raise FindError("this expression takes too long on these lines; write it simpler") from None
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0)
        signal.signal(signal.SIGALRM, before)
