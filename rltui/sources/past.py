"""A run as it was at a time: every read is cut there, so that whatever shows a run can show its past."""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from collections.abc import Sequence
from math import inf
from typing import Any

from rltui.model.log_lines import written
from rltui.sources.base import LOG_BYTES, Json, LogSlice, RunSource, Slice, Unreadable
from rltui.sources.cut import Cut
from rltui.sources.tape import Tape
from trainer.rundir.jsonl import from_iso, iso
from trainer.taskapp.reading import finite

MAX_EVENTS = 5_000
NEAR = 64  # rows of the index among which one can be read
SEEK_BYTES = 1 << 20  # of a log, on the way back
IDENTITY = ("schema", "job_id", "label", "host", "totals", "created_at", "started_at", "checkpoints_dir", "budget_s")


class PastSource(RunSource):
    """`at`: epoch seconds; infinite: the record as it stands. It takes no requests."""

    verbs: frozenset[str] = frozenset()

    def __init__(self, source: RunSource, at: float = inf) -> None:
        self.place = source.place
        self.source = source
        self.at = at
        self.tape = Tape(source)
        self._metrics = Cut(source.metrics, lambda row: _number(row.get("time"), -inf), _x)
        self._groups = Cut(source.groups, lambda row: _number(row.get("t"), -inf), _x)
        self._judge = Cut(source.judge, _judged_at, _x)
        self._updates = Cut(source.update_lines, self._done_at, _x)
        self._counted = -1.0, 0, 0  # for which time and how many recorded: episodes

    def age(self) -> float:
        return self.source.age()

    def status(self) -> Json | None:
        """The last one where `at` is past the end of the record; else what the record tells of that time."""
        status = self.source.status()
        self.tape.extend()
        if status is None or self.at == inf:
            return status
        then = self.tape.status(self.at)
        kept = {name: status[name] for name in IDENTITY if name in status}
        limit = (status.get("lag") or {}).get("limit")
        if then.get("lag"):
            then["lag"]["limit"] = limit
        return {**kept, **then, "updated_at": iso(self.at), "latest": {}}

    def document(self, name: str) -> Json | None:
        return self.source.document(name)

    def events(self, cursor: Any = None, limit: int = 1000) -> Slice:
        last = self.tape.seq(self.at)
        if cursor is None or cursor < 0 or cursor > last:
            start = max(0, last + cursor) if cursor is not None and cursor < 0 else 0
            if cursor is not None and cursor > last:  # back: the newest ones of then
                start, limit = max(0, last - MAX_EVENTS), MAX_EVENTS
            part = self._events(start, last, limit)
            return Slice(part.rows, part.cursor, part.more, rewind=-1 if (cursor or 0) > last else None)
        return self._events(cursor, last, limit)

    def _events(self, start: int, last: int, limit: int) -> Slice:
        rows = [row for row in self.source.events(start, limit).rows if row["seq"] <= last] if start < last else []
        at = rows[-1]["seq"] if rows else start
        return Slice(rows, at, more=bool(rows) and at < last)

    def metrics(self, cursor: Any = None) -> Slice:
        return self._metrics.slice(cursor, self.at)

    def groups(self, cursor: Any = None) -> Slice:
        return self._groups.slice(cursor, self.at)

    def judge(self, cursor: Any = None) -> Slice:
        return self._judge.slice(cursor, self.at)

    def uses(self, cursor: Any = None) -> Slice:
        """Those of the end of the record, where it stands there: the lines have no time."""
        return self.source.uses(cursor) if self.at == inf else Slice([], None, rewind=-1)

    def episode_count(self) -> int:
        count = self.source.episode_count()
        if self.at == inf:
            return count
        if self._counted[:2] != (self.at, count):
            low, high = 0, count  # all before `low` had ended by then
            while low < high:
                middle = (low + high) // 2
                n, ended = self._end_of(middle, high)
                low, high = (n + 1, high) if ended <= self.at else (low, middle)
            self._counted = self.at, count, low
        return self._counted[2]

    def _end_of(self, n: int, below: int) -> tuple[int, float]:
        """(row, end) of the first row from n on that can be read."""
        for n0 in range(n, below, NEAR):
            for row in self.source.index(n0, min(n0 + NEAR, below), ("t",)):
                return row["n"], _number(row.get("t"), -inf)
        return below - 1, -inf

    def index(self, n0: int, n1: int, fields: Sequence[str] | None = None) -> list[Json]:
        return self.source.index(n0, min(n1, self.episode_count()), fields)

    def dropped(self, cursor: Any = None) -> Slice:
        count = self.episode_count()
        base, known = cursor or (None, count)
        part = self.source.dropped(base if known == count else None)
        rows: list[Any] = [[n0, min(n1, count)] for n0, n1 in part.rows if n0 < count]
        return Slice(rows, (part.cursor, count), part.more)

    def episodes(self, split: str, iteration: int) -> list[Json]:
        count = self.episode_count()
        return [row for row in self.source.episodes(split, iteration) if row["n"] < count]

    def episode(self, n: int) -> Json | None:
        return self.source.episode(n) if n < self.episode_count() else None

    def updates(self, n: int) -> Json:
        """What the steps did until then; nothing of an iteration that was not complete."""
        if self.at == inf:
            return self.source.updates(n)
        rows = self.source.index(n, n + 1, ("step",))
        done = self.tape.status(self.at)["step"]
        return self.source.updates(n) if rows and _number(rows[0].get("step"), inf) <= done else {}

    def update_lines(self, cursor: Any = None) -> Slice:
        """They have no time of their own: each came with its step."""
        return self._updates.slice(cursor, self.at)

    def _done_at(self, row: Json) -> float:
        """When the step of a line was done; infinite: not yet."""
        steps = self.tape.steps
        i = bisect_left(steps, _number(row.get("step"), 0.0))
        return self.tape.times[i] if i < len(steps) else inf

    def said(self, n0: int, n1: int) -> list[tuple[int, str]]:
        return self.source.said(n0, min(n1, self.episode_count()))

    def tokens(self, ref: Any) -> dict[str, list[float]] | None:
        return self.source.tokens(ref)

    def vocabulary(self) -> Json | None:
        return self.source.vocabulary()

    def checkpoints(self) -> list[Json]:
        return [one for one in self.source.checkpoints() if _seconds(one.get("created_at")) <= self.at]

    def logs(self) -> list[Json]:
        return self.source.logs()

    def log(self, name: str, cursor: Any = None, limit_bytes: int = LOG_BYTES, *, tail: bool = False) -> LogSlice:
        """The last lines of then, with `tail`; forward there are none: who moves in time reads again."""
        if self.at == inf:
            return self.source.log(name, cursor, limit_bytes, tail=tail)
        if not tail:
            return LogSlice([], cursor)
        lines: list[str] = []
        back: Any = cursor
        size = 0
        while size < limit_bytes:
            part = self.source.log(name, back, max(limit_bytes, SEEK_BYTES), tail=True)
            here = part.lines if lines else until(part.lines, self.at)
            lines = here + lines
            size += sum(map(len, here))
            back = part.back
            if back is None:
                break
        return LogSlice(_last(lines, limit_bytes), back, back=back)

    def request(self, action: str, args: Json | None = None) -> str:
        raise Unreadable("this is the past: it takes no requests")

    def kill(self) -> None:
        raise Unreadable("this is the past: it takes no requests")

    def answer(self, control_id: str) -> Json | None:
        return None


def until(lines: list[str], at: float) -> list[str]:
    """The lines of a log that were written by then; a line without a time belongs to the one before it."""
    stamped = [(i, seconds) for i, line in enumerate(lines) if (seconds := written(line)) is not None]
    after = bisect_right(stamped, at, key=lambda pair: pair[1])
    return lines[: stamped[after][0]] if after < len(stamped) else lines


def _last(lines: list[str], limit: int) -> list[str]:
    size = 0
    for i in range(len(lines) - 1, -1, -1):
        size += len(lines[i])
        if size > limit:
            return lines[i + 1 :]
    return lines


def _x(row: Json) -> float:
    """The step that a row's values stand at in a series."""
    return _number(row.get("eval_step"), _number(row.get("step"), 0.0))


def _judged_at(row: Json) -> float:
    start = _number(row.get("t_start"), _number(row.get("t_queued"), -inf))
    return start + _number(row.get("wall_s"), 0.0)


def _number(value: Any, none: float) -> float:
    found = finite(value)
    return none if found is None else found


def _seconds(iso_time: Any) -> float:
    try:
        return from_iso(iso_time)
    except (TypeError, ValueError, OverflowError):
        return -inf
