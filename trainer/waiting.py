"""Who waits for what since when: the seconds of the learner's waits, and waits that are far too long."""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import Awaitable, Coroutine, Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any, TypeVar

T = TypeVar("T")

MISSING = {  # what the batch of an iteration waits for
    "batch": "the groups of iteration {}",
    "straggler": "episodes that would be too old later",
    "eval": "newer weights, which wait for an evaluation",
}

FOR_EPISODES = frozenset({"batch", "straggler", "eval"})
# Of an answer of the learner: seconds at least, times the longest of its kind so far, seconds where there was none.
WHILE_GOING, WHILE_ENDING = (1800.0, 20.0, 21600.0), (120.0, 5.0, 1800.0)
SLICE_S = 5.0
STALL_STEPS, STALL_S = 5.0, 120.0  # a wait is a stall after so many median steps, but never before so many seconds


@dataclass(frozen=True, slots=True)
class Wait:
    """Who waits for what, since when."""

    who: str  # learner, rollouts, engine; run: all of it
    what: str  # batch, policy, judge, straggler, eval, engine, task_app, sync (WIRE 5.4)
    on: str  # words: "3 task app replies"
    since: float  # on the clock of the event loop
    at_once: bool = False  # nothing moves until it ends: a stall from its first second on

    def is_that(self, other: Wait) -> bool:
        return (self.who, self.what, self.since) == (other.who, other.what, other.since)

    def words(self, now: float) -> str:
        return f"{self.who} waited {now - self.since:.0f} s for {self.what}: {self.on}"


def foremost(waits: Iterable[Wait]) -> Wait | None:
    """The one to be told first: the longest, but before it one that is a stall by itself."""
    return min(waits, key=lambda wait: (not wait.at_once, wait.since), default=None)


def stall(waits: Iterable[Wait], now: float, median_step_s: float, moved: float = 0.0) -> Wait | None:
    """The foremost wait, if it is longer than waits of this run should be.

    moved: when the run last went on after a stall of all; what waited then waits anew.
    """
    first = foremost(waits)
    if first is None or first.at_once:
        return first
    return first if now - max(first.since, moved) > max(STALL_STEPS * median_step_s, STALL_S) else None


def told(waits: Sequence[Wait]) -> Wait | None:
    """The wait that is told: the foremost; where that is for episodes, the judge that all of them are with."""
    first = foremost(waits)
    if first is not None and first.what in FOR_EPISODES:
        return next((wait for wait in waits if wait.what == "judge"), first)
    return first


class Waits:
    """Present waits, one for each who, and the seconds of those that ended."""

    def __init__(self) -> None:
        self._present: dict[str, Wait] = {}
        self._seconds: Counter[str] = Counter()

    @contextmanager
    def of(self, who: str, what: str, on: str) -> Iterator[None]:
        """A wait that goes on from one of the same `who` and `what` keeps its beginning."""
        now = asyncio.get_running_loop().time()
        before = self._present.get(who)
        since = before.since if before is not None and before.what == what else now
        self._present[who] = Wait(who, what, on, since)
        try:
            yield
        except BaseException:
            self.over(who)
            raise
        finally:
            self._seconds[what] += asyncio.get_running_loop().time() - now

    def over(self, who: str) -> None:
        self._present.pop(who, None)

    @property
    def present(self) -> list[Wait]:
        return list(self._present.values())

    def take(self) -> Counter[str]:
        """Seconds by `what` since the last call."""
        taken, self._seconds = self._seconds, Counter()
        return taken


class LearnerLimit:
    """How long the learner may take for an answer before it counts as hanging: by the longest of its kind so far."""

    def __init__(self) -> None:
        self.ending = False  # a stop was asked
        self._longest: dict[str, float] = {}  # seconds, by kind

    def seconds(self, kind: str) -> float:
        least, times, first = WHILE_ENDING if self.ending else WHILE_GOING
        return max(least, times * self._longest[kind]) if kind in self._longest else first

    async def hold(self, kind: str, work: Coroutine[Any, Any, T]) -> T:
        """The result of `work`. TimeoutError, with the time in words, once it has taken too long; from a stop on anew.

        Time is counted in slices: of a machine that sleeps, or a run that is stopped with its learner, one is lost.
        """
        began, waited, ending = asyncio.get_running_loop().time(), 0.0, self.ending
        task = asyncio.ensure_future(work)
        try:
            while not task.done():
                if self.ending and not ending:
                    waited, ending = 0.0, True
                if (left := self.seconds(kind) - waited) <= 0:
                    raise TimeoutError(f"within {waited:.0f} s")
                await asyncio.wait([task], timeout=min(left, SLICE_S))
                waited += min(left, SLICE_S)
            result = task.result()
        finally:
            task.cancel()
        took = asyncio.get_running_loop().time() - began
        self._longest[kind] = max(self._longest.get(kind, 0.0), took)
        return result


async def together(*work: Awaitable[Any]) -> list[Any]:
    """All results. The first failure is raised once the others, which may never end by themselves, are given up."""
    tasks = [asyncio.ensure_future(one) for one in work]
    try:
        return await asyncio.gather(*tasks)
    finally:
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)


async def unless(event: asyncio.Event, work: Coroutine[Any, Any, T]) -> T | None:
    """The result of `work`, or None when `event` came first: then `work` is given up."""
    if event.is_set():
        work.close()
        return None
    task = asyncio.ensure_future(work)
    came = asyncio.ensure_future(event.wait())
    try:
        await asyncio.wait({task, came}, return_when=asyncio.FIRST_COMPLETED)
        return task.result() if task.done() and not task.cancelled() else None
    finally:
        came.cancel()
        task.cancel()
        await asyncio.gather(task, return_exceptions=True)


async def within(seconds: float | None, work: Coroutine[Any, Any, T]) -> T | None:
    """The result of `work`, or None when it took longer: then it is given up. None: no limit."""
    try:
        async with asyncio.timeout(seconds) as limit:
            return await work
    except TimeoutError:
        if limit.expired():
            return None
        raise
