"""A stream of a run cut at a time: forward it gives what came until then, backward it takes back what came after."""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Callable
from math import inf
from typing import Any, NamedTuple

from rltui.sources.base import Json, Slice

KEPT = 4  # slices in memory: a step to and fro reads nothing again
ALL = 1 << 53


class _At(NamedTuple):
    """How far a cut stream was read: `skip` rows of the slice that begins at `base`, for the time `at`."""

    base: Any
    skip: int
    at: float


class Cut:
    """`time_of` and `x_of` say of a row when it was written and which step it belongs to. Rows stand in the order of
    their times, about."""

    def __init__(
        self, read: Callable[[Any], Slice], time_of: Callable[[Json], float], x_of: Callable[[Json], float]
    ) -> None:
        self._read, self._time_of, self._x_of = read, time_of, x_of
        self._starts: list[tuple[float, Any]] = []  # of each slice: time of its first row, cursor in front of it
        self._kept: OrderedDict[int, Slice] = OrderedDict()

    def slice(self, cursor: _At | None, at: float) -> Slice:
        """The rows between `cursor` and the time `at`; `rewind` where the cursor lies beyond it."""
        here = cursor or _At(None, 0, -inf)
        if at < here.at:
            return self._back(at)
        part = self._part(here.base)
        if part.rewind is not None and here.base is not None:  # an attempt began: what was given is in doubt
            self._starts.clear()
            self._kept.clear()
            return Slice([], None, more=True, rewind=-1)
        rows = part.rows[here.skip :]
        taken = self._until(rows, at)
        if len(taken) < len(rows):
            return Slice(taken, _At(here.base, here.skip + len(taken), at))
        # A slice that may still grow is read again from its beginning.
        after = _At(part.cursor, 0, at) if part.more else _At(here.base, here.skip + len(taken), at)
        return Slice(taken, after, more=part.more)

    def _back(self, at: float) -> Slice:
        """Forget the steps of all rows after `at`, and give again what of them was there by then."""
        k = max((i for i, (time, _) in enumerate(self._starts) if time <= at), default=0)
        if not self._starts:
            return Slice([], None, more=True, rewind=-1)
        near = [row for i in (k - 1, k, k + 1) if 0 <= i < len(self._starts) for row in self._number(i).rows]
        until = self._until(self._number(k).rows, at)
        known = {id(row) for row in self._until(near, at)}
        lost = min((self._x_of(row) for row in near if id(row) not in known), default=ALL)
        again = [row for row in near if id(row) in known and self._x_of(row) >= lost]
        return Slice(again, _At(self._starts[k][1], len(until), at), rewind=int(lost) - 1)

    def _until(self, rows: list[Json], at: float) -> list[Json]:
        for i, row in enumerate(rows):
            if self._time_of(row) > at:
                return rows[:i]
        return rows

    def _part(self, base: Any) -> Slice:
        number = next((i for i, (_, cursor) in enumerate(self._starts) if cursor == base), None)
        if number is not None:
            return self._number(number)
        part = self._read(base)
        if part.rows:
            self._starts.append((self._time_of(part.rows[0]), base))
            self._keep(len(self._starts) - 1, part)
        return part

    def _number(self, i: int) -> Slice:
        if i not in self._kept:
            self._keep(i, self._read(self._starts[i][1]))
        part = self._kept[i]
        self._kept.move_to_end(i)
        if not part.more:  # it may have grown
            del self._kept[i]
        return part

    def _keep(self, i: int, part: Slice) -> None:
        self._kept[i] = part
        while len(self._kept) > KEPT:
            self._kept.popitem(last=False)
