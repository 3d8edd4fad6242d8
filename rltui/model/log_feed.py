"""New lines of all logs of a run, for the thread that reads."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Any

from rltui.model.event_view import LOG, line, told

if TYPE_CHECKING:
    from rltui.sources.base import RunSource

FIRST_BYTES = 256 << 10  # of each log, at its end
FIRST_EVENTS = 2_000
_TIME = re.compile(r"\d{4}-\d\d-\d\d[T ]\d\d:\d\d:\d\d[.,]?\d*")
Lines = tuple[str, list[str]]  # name of the log, its new lines


class LogFeed:
    """`read` belongs to one thread. The ends of all logs come first, by time; then what is added to each, in the order
    in which it is found: lines of one moment are not sorted again."""

    def __init__(
        self, source: RunSource, *, only: str | None = None, first_bytes: int = FIRST_BYTES, events: bool = False
    ) -> None:
        """`only`: the one log that is read, without its ending. `first_bytes`: of the end of each log at first.
        `events`: those of the run are a log, too."""
        self._source, self._only, self._first_bytes = source, only, first_bytes
        self._events: int | None = -FIRST_EVENTS if events else None
        self._cursors: dict[str, Any] = {}

    def read(self) -> tuple[list[Lines], bool]:
        """(new lines, whether there are more already). Unreadable."""
        found: list[Lines] = []
        first: list[Lines] = []
        more = False
        if self._events is not None:
            at = self._events
            part_ = self._source.events(at)
            self._events, more = part_.cursor, part_.more
            lines = [line(event) for event in told(part_.rows)]
            if lines:
                (first if at < 0 else found).append((LOG, lines))
        for log in self._source.logs():
            name = str(log["name"])
            if self._only is not None and name.removesuffix(".log") != self._only:
                continue
            if name not in self._cursors:
                part = self._source.log(name, None, self._first_bytes, tail=True)
                first.append((name.removesuffix(".log"), part.lines))
            else:
                part = self._source.log(name, self._cursors[name])
                more |= part.more
                if part.lines:
                    found.append((name.removesuffix(".log"), part.lines))
            self._cursors[name] = part.cursor
        return merged(first) + found, more


def merged(logs: list[Lines]) -> list[Lines]:
    """Lines of several logs by the time at their beginning; a line without one stays behind the line before it."""
    stamped: list[tuple[str, int, int, str, str]] = []
    for number, (name, lines) in enumerate(logs):
        last = ""
        for i, text in enumerate(lines):
            time = _TIME.match(text)
            last = time[0].replace(",", ".").replace(" ", "T") if time else last
            stamped.append((last, number, i, name, text))
    stamped.sort()
    result: list[Lines] = []
    for _, _, _, name, text in stamped:
        if result and result[-1][0] == name:
            result[-1][1].append(text)
        else:
            result.append((name, [text]))
    return result
