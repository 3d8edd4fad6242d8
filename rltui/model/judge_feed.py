"""The judge of a run as it goes on: its calls, and the newest episodes that it judged."""

from __future__ import annotations

from collections import deque
from typing import Any, ClassVar, NamedTuple

from rltui.charts.pyramid import Pyramid
from rltui.model.judged import PAIRS, Calls, quantile, recent, who_judges
from rltui.sources.base import Json, RunSource
from trainer.judge.score import overall
from trainer.taskapp.reading import finite

_FIELDS = ("iteration", "O", "je", "jo")
_ROWS = 4_000  # of the index, read at a time


class Pair(NamedTuple):
    """One judged episode: what the task app gave, and what the judge gave as the reward weighs it."""

    n: int
    iteration: int | None
    env: float
    score: float


class JudgeFeed:
    """`read` belongs to one thread; `calls`, `p50` and `p95` may be looked at by others while it goes on."""

    name: ClassVar[str] = "judge"

    def __init__(self) -> None:
        self.who: Json = {}  # as model.judged.who_judges gives it
        self.timeout_s: float | None = None
        self.pairs: tuple[Pair, ...] = ()  # the newest, oldest first
        self._seen = 0  # rows of the index that were looked at
        self._cursor: Any = None
        self._begin()
        self._asked = False

    def read(self, source: RunSource) -> tuple[bool, bool]:
        changed = self._read_documents(source)
        part = source.judge(self._cursor)
        if part.rewind is not None:
            self._begin()
            part, changed = source.judge(None), True  # a rewind gives again the last rows only
        self._cursor = part.cursor
        self._take(part.rows)
        some, more = self._read_pairs(source)
        return changed or bool(part.rows) or some, part.more or more

    def _begin(self) -> None:
        """No call is known."""
        self.calls = Calls()
        self.again = 0  # calls that were tried again
        self.timeouts = 0
        self.bad: Json | None = None  # the last call without scores
        self.p50, self.p95 = Pyramid(), Pyramid()  # seconds of a call, by the last step of its iteration
        self._walls: dict[int, list[float]] = {}
        self._cursor = None

    @property
    def recent(self) -> Json:
        """{episodes, agreement}: the rank correlation of the judge with the task app over `pairs`."""
        return recent([(pair.score, pair.env) for pair in self.pairs])

    def _read_documents(self, source: RunSource) -> bool:
        """Once they are there they stay as they are."""
        if self._asked:
            return False
        resolved = source.document("resolved.json")
        self.who = who_judges(source.document("environment.json"), resolved)
        leaf: Any = resolved or {}
        for name in ("values", "judge", "timeout_s", "value"):
            leaf = leaf.get(name) if isinstance(leaf, dict) else None
        self.timeout_s = finite(leaf)
        self._asked = self.who["source"] is not None
        return self._asked

    def _take(self, rows: list[Json]) -> None:
        new: set[int] = set()
        for row in rows:
            self.calls.add(row)
            wall, step = finite(row.get("wall_s")), row.get("step")
            self.again += (finite(row.get("try")) or 0) > 0
            if row.get("status") == "failed":
                self.bad = row
                limit = self.timeout_s
                self.timeouts += limit is not None and row.get("http") is None and (wall or 0.0) >= 0.95 * limit
            if wall is not None and row.get("status") != "cached" and type(step) is int:
                self._walls.setdefault(step, []).append(wall)
                new.add(step)
        if not new:
            return
        for step in sorted(step for step in self._walls if step >= min(new)):  # later ones go when an earlier one comes
            walls = sorted(self._walls[step])
            self.p50.append(step, quantile(walls, 0.5) or 0.0)
            self.p95.append(step, quantile(walls, 0.95) or 0.0)

    def _read_pairs(self, source: RunSource) -> tuple[bool, bool]:
        count = source.episode_count()
        if count < self._seen:  # back in time
            self._seen, self.pairs = 0, ()
        if count == self._seen:
            return False, False
        blend = self.who.get("blend") or {}
        weights = blend.get("event", 0.0), blend.get("outcome", 0.0)
        start = max(self._seen, count - _ROWS)
        found = deque(self.pairs, maxlen=PAIRS)
        for row in source.index(start, count, _FIELDS):
            env, score = finite(row.get("O")), overall(finite(row.get("je")), finite(row.get("jo")), *weights)
            if env is not None and score is not None:
                iteration = row.get("iteration")
                found.append(Pair(row["n"], iteration if isinstance(iteration, int) else None, env, score))
        self._seen, self.pairs = count, tuple(found)
        return True, False
