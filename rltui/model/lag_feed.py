"""How old the weights of recent episodes were when a step used them."""

from __future__ import annotations

from collections import Counter, deque
from typing import Any, ClassVar

from rltui.sources.base import RunSource

EPISODES = 1_000


class LagFeed:
    """`lags`: in steps, of the newest EPISODES that a step used; null lags are left out."""

    name: ClassVar[str] = "lags"

    def __init__(self) -> None:
        self.lags: tuple[int, ...] = ()
        self._cursor: Any = None

    def read(self, source: RunSource) -> tuple[bool, bool]:
        part = source.uses(self._cursor)
        self._cursor = part.cursor
        before = () if part.rewind is not None else self.lags
        found: list[Any] = [row.get("lag") for row in part.rows]
        new = [int(lag) for lag in found if type(lag) in (int, float) and 0 <= lag < 1e6]
        lags = tuple(deque((*before, *new), maxlen=EPISODES)) if new else before
        changed = lags != self.lags
        self.lags = lags
        return changed, part.more

    def counts(self) -> list[tuple[int, int]]:
        """(lag, episodes), from 0 to the largest lag."""
        found = Counter(self.lags)
        return [(lag, found[lag]) for lag in range(min(max(found, default=-1), 63) + 1)]
