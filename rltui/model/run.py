"""Everything that a screen shows of one run, kept up to date by bounded reads."""

from __future__ import annotations

import time
from collections import deque
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from pathlib import PurePath
from typing import Any, ClassVar, Protocol, TypeVar, cast

from rltui.model.episodes import EpisodeRows
from rltui.model.metrics import MetricStore
from rltui.sources.base import TERMINAL, Json, RunSource, Unreadable
from rltui.text import clean

MAX_EVENTS = 5_000
MAX_GROUPS = 2_000
# What is kept of an event: the rest of its line repeats these, and thousands of them are held.
_EVENT_KEYS = ("seq", "attempt", "step", "type", "level", "message", "data", "created_at")
_CHECKPOINT_KEYS = ("attempt", "last_checkpoint", "best", "state")


@dataclass(frozen=True)
class Change:
    """What a refresh changed: status, events, metrics, groups, episodes, checkpoints, error; `caught_up` where it
    read the last of what was there. `more`: refresh again at once, there is more to read. False where nothing changed.
    """

    what: frozenset[str] = frozenset()
    more: bool = False

    def __contains__(self, name: str) -> bool:
        return name in self.what

    def __bool__(self) -> bool:
        return bool(self.what)


class Feed(Protocol):
    """A part of the record that is read once somebody wants it, by the thread of `refresh`."""

    name: ClassVar[str]  # as `Change` tells it

    def read(self, source: RunSource) -> tuple[bool, bool]:
        """Read on: whether anything changed, and whether there is more."""
        ...


F = TypeVar("F", bound=Feed)


class RunModel:
    """`refresh` belongs to one thread. Others may read at any time: what is held here is replaced, never changed,
    except `metrics` and `episodes`, which can be read while they grow."""

    def __init__(self, source: RunSource) -> None:
        self.source = source
        self.place = source.place
        self.name = clean(PurePath(source.place).name or source.place, 200)
        self._feeds: dict[type, Feed] = {}
        self.asked = False  # whether its status was looked for once
        self._behind = False  # the last refresh left more to read
        self.error: str | None = None  # why the run, or a part of it, cannot be read now; the data is the last known
        self._clear()

    def _clear(self) -> None:
        self.status: Json | None = None
        self.events: tuple[Json, ...] = ()  # the newest 5,000
        self.groups: tuple[Json, ...] = ()  # the newest 2,000 closed groups
        self.metrics = MetricStore()
        self.episodes = EpisodeRows(self.source)
        self.checkpoints: tuple[Json, ...] = ()
        self._cursors: dict[str, Any] = {"events": -MAX_EVENTS}
        self._checkpoints_seen: object = None
        self._feeds = {kind: kind() for kind in list(self._feeds)}

    def feed(self, kind: type[F]) -> F:
        """The feed of this kind; it is read from the next `refresh` on."""
        return cast(F, self._feeds.setdefault(kind, kind()))

    @property
    def live(self) -> bool:
        """Whether more is to be expected of it."""
        return self.status is None or self.status.get("state") not in TERMINAL

    def now(self) -> float:
        """Epoch seconds of the moment that it shows."""
        return time.time()

    def age(self) -> float:
        """Seconds since the place of the run answered last."""
        return self.source.age()

    def refresh(self, budget_s: float = 0.05) -> Change:
        """Read on for about `budget_s`; each part gets at least one read. Never raises Unreadable: see `error`."""
        deadline = time.perf_counter() + budget_s
        changed: set[str] = set()
        problems: list[str] = []
        first = [self._read_status, self._read_events, self._read_metrics, self._read_groups, self._read_episodes]
        waiting: deque[Callable[[set[str]], bool]] = deque([*first, self._read_checkpoints])
        waiting.extend(partial(self._read_feed, feed) for feed in list(self._feeds.values()))
        turns = len(waiting)
        while waiting and (turns > 0 or time.perf_counter() < deadline):
            read = waiting.popleft()
            turns -= 1
            try:
                if read(changed):
                    waiting.append(read)
            except Unreadable as error:
                problems.append(str(error))
        told = clean(problems[0], 500) if problems else None
        if told != self.error:
            self.error = told
            changed.add("error")
        if self._behind and not waiting:
            changed.add("caught_up")
        self._behind = bool(waiting)
        return Change(frozenset(changed), self._behind)

    def _read_status(self, changed: set[str]) -> bool:
        known = self.status
        try:
            status = self.source.status()
        finally:
            self.asked = True
        if known is not None and status is not None and known.get("job_id") != status.get("job_id"):
            self._clear()  # another run has taken the folder
            changed.update(("events", "metrics", "groups", "episodes", "checkpoints"))
        if status != known:
            self.status = status
            changed.add("status")
        return False

    def _read_events(self, changed: set[str]) -> bool:
        part = self.source.events(self._cursors["events"])
        self._cursors["events"] = part.cursor
        if part.rewind is not None:  # back in time
            self.events = ()
            changed.add("events")
        if part.rows:
            kept = tuple({key: row[key] for key in _EVENT_KEYS if key in row} for row in part.rows)
            self.events = (self.events + kept)[-MAX_EVENTS:]
            changed.add("events")
        return part.more

    def _read_metrics(self, changed: set[str]) -> bool:
        part = self.source.metrics(self._cursors.get("metrics"))
        self._cursors["metrics"] = part.cursor
        if part.rewind is not None:
            self.metrics.rewind(part.rewind)
            changed.add("metrics")
        if self.metrics.add(part.rows):
            changed.add("metrics")
        return part.more

    def _read_groups(self, changed: set[str]) -> bool:
        part = self.source.groups(self._cursors.get("groups"))
        self._cursors["groups"] = part.cursor
        if part.rewind is None and not part.rows:
            return part.more
        known = self.groups
        if part.rewind is not None:
            known = tuple(group for group in known if _step(group) <= part.rewind)
        self.groups = (*known, *part.rows)[-MAX_GROUPS:]
        changed.add("groups")
        return part.more

    def _read_episodes(self, changed: set[str]) -> bool:
        some, more = self.episodes.refresh()
        if some:
            changed.add("episodes")
        return more

    def _read_feed(self, feed: Feed, changed: set[str]) -> bool:
        some, more = feed.read(self.source)
        if some:
            changed.add(feed.name)
        return more

    def _read_checkpoints(self, changed: set[str]) -> bool:
        """The folder is looked at only when the status tells of another one."""
        seen = self.status and [self.status.get(key) for key in _CHECKPOINT_KEYS]
        if seen is None or seen == self._checkpoints_seen:
            return False
        found = tuple(self.source.checkpoints())
        self._checkpoints_seen = seen
        if found != self.checkpoints:
            self.checkpoints = found
            changed.add("checkpoints")
        return False


def _step(line: Json) -> int:
    step = line.get("step")
    return step if isinstance(step, int) else 0
