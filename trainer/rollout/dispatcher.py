"""Starts episodes as admission and concurrency allow, oldest first, and hands out whole groups (CONFIG 3, DESIGN 5).

Everything happens on the event loop, in answer to something: an episode ended, newer weights serve, a batch closed.
"""

from __future__ import annotations

import asyncio
import heapq
from collections import deque
from collections.abc import Awaitable, Callable, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from typing import Any, Protocol

from trainer.lag import Contained
from trainer.rewards.advantages import GroupAdvantages
from trainer.rewards.episode import EpisodeReward
from trainer.rollout.admission import first_overfull, newest_iteration
from trainer.rollout.episode import Assignment, Episode
from trainer.rollout.groups import Group, LiveGroup, Losses, Tally, check_share
from trainer.rollout.meter import Meter
from trainer.rollout.player import TaskAppDown
from trainer.rollout.seeds import SeedCursor
from trainer.rollout.sizes import Sizes

Json = dict[str, Any]
# An assignment, and what is set to the facts of it (WIRE 1.6) when the play has become stale and is to be given up.
Play = Callable[[Assignment, "asyncio.Future[Json]"], Awaitable[Episode]]
Score = Callable[[Sequence[EpisodeReward]], GroupAdvantages]


class Keeper(Protocol):
    """Keeps the record of groups that are in no batch."""

    def dropped(self, group: Group) -> None: ...
    def refilled(self, group: Group) -> None: ...


class Outage(Protocol):
    """Of the task app."""

    @property
    def going_on(self) -> bool: ...
    def begin(self, met: str) -> None: ...


@dataclass(eq=False, slots=True)
class _Running:
    """One play in flight. `group` is None for an evaluation's, whose episode goes to `done`."""

    assignment: Assignment
    stale: asyncio.Future[Json]
    started: float
    version: int  # that served when it began
    group: LiveGroup | None = None
    done: asyncio.Future[Episode] | None = None
    task: asyncio.Task[Episode] | None = None


class Dispatcher:
    """The plays of a run, training and evaluation together.

    Attributes:
        max_concurrent, max_lag: may be changed while the run is going; then call `fill`. None: no limit of the lag.
        admitting: nothing is started while it is false; then call `fill`.
        opening: no new training group is opened while it is false; then call `fill`.
        tally: what was lost since the last batch closed.
    """

    def __init__(
        self,
        play: Play,
        play_evaluation: Play,
        cursor: SeedCursor,
        sizes: Sizes,
        score: Score,
        contained: Contained,
        keeper: Keeper,
        outage: Outage,
        *,
        max_concurrent: int,
        max_lag: int | None,
        closed: int = 0,
        version: int = 0,
        meter: Meter | None = None,
    ) -> None:
        """closed: iterations whose batch was closed before; version: the weights that serve. Nothing is started while
        an outage goes on; call `fill` after it."""
        self.max_concurrent, self.max_lag = max_concurrent, max_lag
        self.admitting, self.opening = True, False
        self.tally, self.meter = Tally(), meter or Meter()
        self._play, self._play_evaluation, self._cursor, self._sizes = play, play_evaluation, cursor, sizes
        self._score, self._contained, self._keeper, self._outage = score, contained, keeper, outage
        self._closed, self._version, self._updates = closed, version, contained[version]
        self._live: dict[int, LiveGroup] = {}  # in the order of their opening
        self._ready: list[Group] = []
        self._queue: list[tuple[int, int, int, int]] = []  # heap of (iteration, group, member, replay)
        self._evaluation: deque[tuple[Assignment, asyncio.Future[Episode]]] = deque()
        self._evaluation_limit = 0
        self._running: set[_Running] = set()
        self._evaluating = 0
        self._lost: dict[int, Losses] = {}  # by the iteration that the episode was started for
        self._change = asyncio.Event()
        self._failure: BaseException | None = None

    # --- what the learner asks ------------------------------------------------------------------------------

    def missing(self, iteration: int) -> str | None:
        """What the batch of `iteration` waits for: batch, straggler; None: it may close."""
        if len(self._ready) < self._sizes.groups:
            return "batch"
        return "straggler" if self._stragglers(iteration)[1] else None

    def take(self, iteration: int) -> tuple[list[Group], Tally]:
        """Closes the batch of `iteration`: the oldest of what is ready. To be called once nothing is missing."""
        ready = self._in_order()
        batch, self._ready = ready[: self._sizes.groups], ready[self._sizes.groups :]
        tally, self.tally = self.tally, Tally()
        self._closed = iteration
        for done in [i for i in self._lost if i < iteration]:
            del self._lost[done]
        self.fill()
        return batch, tally

    async def changed(self, timeout_s: float | None = None) -> None:
        """Until something has happened, or the time is over. Raises what a play failed with."""
        if self._failure is None:
            with suppress(TimeoutError):
                await asyncio.wait_for(self._change.wait(), timeout_s)
        self._change.clear()
        if self._failure is not None:
            raise self._failure

    def drop_overdue(self, iteration: int) -> float | None:
        """Gives up the stragglers that `iteration` has waited for long enough.

        Returns:
            Seconds until the next one is; None: none is being played.
        """
        now, left = asyncio.get_running_loop().time(), []
        last, groups = self._stragglers(iteration)
        behind = {group.index for group in groups}
        for run in [r for r in self._running if r.group is not None and r.group.index in behind and not r.stale.done()]:
            rest = run.started + self._sizes.timeout_s - now
            if rest <= 0:
                lag = last * self._sizes.steps - self._contained[run.version]  # if it came in the batch after that
                run.stale.set_result({"version": run.version, "lag": lag, "limit": self.max_lag})
            else:
                left.append(rest)
        return min(left, default=None)

    def serve(self, version: int) -> None:
        """Newer weights serve: what is started from now on is sampled from them."""
        self._version, self._updates = version, self._contained[version]
        self.fill()

    async def evaluate(self, assignments: Sequence[Assignment], limit: int) -> list[Episode]:
        """Plays these before any further training episode, at most `limit` at once. Raises what a play failed with."""
        if self._failure is not None:  # while the learner was busy, and waited for nothing
            raise self._failure
        loop = asyncio.get_running_loop()
        plays: list[tuple[Assignment, asyncio.Future[Episode]]] = [(each, loop.create_future()) for each in assignments]
        self._evaluation.extend(plays)
        self._evaluation_limit = limit
        self.fill()
        try:
            return await asyncio.gather(*(done for _, done in plays))
        finally:
            self._evaluation.clear()  # after a stop some have not begun

    def fail(self, error: BaseException) -> None:
        """The run cannot go on: whoever waits is told so. The first error counts."""
        self._failure = self._failure or error
        for done in [done for _, done in self._evaluation] + [r.done for r in self._running if r.done is not None]:
            if not done.done():
                done.set_exception(error)
        self._change.set()

    async def close(self) -> None:
        """Gives up all that is in flight."""
        self.admitting, self._queue = False, []
        self._evaluation.clear()
        tasks = [run.task for run in self._running if run.task is not None]
        self._running.clear()
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)

    # --- what is going on -----------------------------------------------------------------------------------

    @property
    def running(self) -> int:
        return len(self._running)

    @property
    def oldest_start(self) -> float:
        """Of the plays in flight, by the clock of the event loop. There must be one."""
        return min(run.started for run in self._running)

    @property
    def waits_for_policy(self) -> bool:
        """There is room, and training episodes to play, but not before newer weights serve."""
        opened = self._opened()
        return (
            self._starting
            and self.opening
            and len(self._running) < self.max_concurrent
            and not self._queue
            and opened < self._sizes.groups * self._sizes.iterations
            and opened >= self._admitted()
        )

    def depths(self) -> dict[str, int]:
        """What of status.json's `pipeline` the dispatcher knows (WIRE 5.4)."""
        played = sum(m is not None for group in self._live.values() for m in group.members)
        return {
            "running": len(self._running),
            "max": self.max_concurrent,
            "judging": self.meter.judging,
            "ready": len(self._ready) * self._sizes.size + played,
            "need": self._sizes.episodes,
        }

    def cursor(self) -> dict[str, Any]:
        """Where a resume goes on: groups that are in no batch yet are played again, before new seeds (WIRE 5.9)."""
        state = self._cursor.state()
        open_ones = [[group.index, group.seed] for group in self._live.values()]
        begun = sorted(open_ones + [[group.index, group.seed] for group in self._ready])
        return {**state, "again": begun + state["again"]}

    # --- starting -------------------------------------------------------------------------------------------

    def fill(self) -> None:
        """Starts whatever may start now."""
        before = len(self._running)
        while len(self._running) < self.max_concurrent and self._failure is None and (run := self._next()) is not None:
            self._start(run)
        running = len(self._running)
        self.meter.note(
            running=running,
            training=running - self._evaluating,
            held=self.waits_for_policy,
            started=running > before,
        )
        self._change.set()

    @property
    def _starting(self) -> bool:
        return self.admitting and not self._outage.going_on

    def _next(self) -> _Running | None:
        """Evaluation first: weights wait for it. Then members of open groups, oldest first; then a new group."""
        loop = asyncio.get_running_loop()
        now, version = loop.time(), self._version
        if not self._starting:
            return None
        if self._evaluation and self._evaluating < self._evaluation_limit:
            assignment, done = self._evaluation.popleft()
            return _Running(assignment, loop.create_future(), now, version, done=done)
        if not self._queue and self.opening and self._opened() < self._admitted():
            self._open(self._opened() // self._sizes.groups + 1)
        if not self._queue:
            return None
        _, index, member, replay = heapq.heappop(self._queue)
        group = self._live[index]
        group.oldest[member] = self._updates
        return _Running(group.assignment(member, replay), loop.create_future(), now, version, group)

    def _start(self, run: _Running) -> None:
        play = self._play_evaluation if run.group is None else self._play
        self._evaluating += run.group is None
        self._running.add(run)
        run.task = asyncio.ensure_future(play(run.assignment, run.stale))
        run.task.add_done_callback(lambda task: self._ended(run, task))

    def _opened(self) -> int:
        """Groups that have a place in a batch: closed, ready or being played."""
        return self._closed * self._sizes.groups + len(self._ready) + len(self._live)

    def _admitted(self) -> int:
        sizes = self._sizes
        if self.max_lag is None:  # weights never change: one iteration ahead keeps the engine busy
            newest = self._closed + 2
        else:
            newest = newest_iteration(steps=sizes.steps, max_lag=self.max_lag, updates_served=self._updates)
        return sizes.groups * min(newest, sizes.iterations)

    def _open(self, iteration: int, **place: Any) -> None:
        index, seed = self._cursor.next_group()
        group = replace(LiveGroup.of(self._sizes.size, index, seed, iteration), **place)
        self._live[index] = group
        for member in range(self._sizes.size):
            heapq.heappush(self._queue, (iteration, index, member, 0))

    def _in_order(self) -> list[Group]:
        return sorted(self._ready, key=lambda group: (group.oldest, group.index))

    def _stragglers(self, iteration: int) -> tuple[int, list[LiveGroup]]:
        """Groups being played without which the batch of `iteration` may not close, and the last one they can be in."""
        if self.max_lag is None:
            return iteration, []
        steps, max_lag = self._sizes.steps, self.max_lag

        def newest(oldest: int) -> int:
            return newest_iteration(steps=steps, max_lag=max_lag, updates_served=oldest)

        left = [newest(group.oldest) for group in self._in_order()[self._sizes.groups :]]
        live = [(newest(group.oldest_updates(self._updates)), group) for group in self._live.values()]
        last = first_overfull(left + [n for n, _ in live], iteration=iteration, groups=self._sizes.groups)
        if last is None:
            return iteration, []
        return last, [group for n, group in live if iteration <= n <= last]

    # --- ending ---------------------------------------------------------------------------------------------

    def _ended(self, run: _Running, task: asyncio.Task[Episode]) -> None:
        if run not in self._running:  # given up by `close`
            return
        self._running.discard(run)
        self._evaluating -= run.group is None
        try:
            episode = task.result()
            if run.group is not None:
                self._played(run.group, episode)
            elif run.done is not None and not run.done.done():
                run.done.set_result(episode)
            self.fill()
        except TaskAppDown as down:
            self._give_back(run)
            self._outage.begin(str(down))
            self.fill()
        except BaseException as error:  # on to whoever waits for the batch; here nobody would hear it
            if run.done is not None and not run.done.done():  # it is in no list any more
                run.done.set_exception(error)
            self.fail(error)

    def _give_back(self, run: _Running) -> None:
        """As if the play had not been started."""
        where = run.assignment
        if run.group is not None:
            run.group.oldest[where.member] = None
            heapq.heappush(self._queue, (run.group.iteration, run.group.index, where.member, where.replay))
        elif run.done is not None and not run.done.done():
            self._evaluation.appendleft((where, run.done))

    def _played(self, group: LiveGroup, episode: Episode) -> None:
        assignment = episode.assignment
        if episode.exclusion is not None:
            self.tally.excluded[episode.exclusion.code] += 1
            lost = self._lost.setdefault(assignment.iteration, Losses())
            lost.add(episode.exclusion)
            limit = self._sizes.max_excluded_fraction
            check_share(lost, episode, episodes=self._sizes.episodes, limit=limit)
            if not assignment.replay:  # once more with the same seed
                group.oldest[assignment.member] = None
                heapq.heappush(self._queue, (group.iteration, group.index, assignment.member, 1))
                return
        else:
            group.oldest[assignment.member] = self._contained.oldest(episode)
            self.meter.tokens += episode.sampled_tokens
        group.members[assignment.member] = episode
        if (whole := group.whole()) is not None:
            del self._live[group.index]
            self._settle(whole)

    def _settle(self, group: Group) -> None:
        """A group is ready, or another one takes its place."""
        rewards = [member.reward for member in group.members if member.reward and member.exclusion is None]
        if len(rewards) < len(group.members):
            self.tally.dropped_groups += 1
            self._keeper.dropped(group)
            self._open(group.iteration, replaces=group.index)
            return
        group.advantages = self._score(rewards)
        if group.advantages.dead and self.tally.refilled_groups < self._sizes.max_refill_groups:
            self.tally.refilled_groups += 1
            self._keeper.refilled(group)
            self._open(group.iteration, refills=[*group.refills, group.index])
            return
        self._ready.append(group)
