"""Groups: all members of one task seed, whole or replaced (CONFIG 3)."""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import Awaitable, Callable
from dataclasses import dataclass, field, replace

from trainer.rollout.episode import Assignment, Episode
from trainer.rollout.seeds import SeedCursor


class TooManyExcluded(RuntimeError):
    """The run cannot go on with survivors only. The text names the reasons and one example."""


@dataclass(slots=True)
class Group:
    """Episodes of one seed, in member order."""

    index: int
    seed: int
    members: list[Episode]
    replaces: int | None = None


@dataclass(slots=True)
class Tally:
    """What an iteration lost, by exclusion code."""

    episodes: int  # E
    limit: float  # rollout.max_excluded_fraction
    excluded: Counter[str] = field(default_factory=Counter)
    dropped_groups: int = 0

    def exclude(self, episode: Episode) -> None:
        assert episode.exclusion is not None
        code = episode.exclusion.code
        self.excluded[code] += 1
        if self.excluded.total() > self.limit * self.episodes:
            reasons = ", ".join(f"{code} x {count}" for code, count in self.excluded.most_common())
            raise TooManyExcluded(
                f"{self.excluded.total()} of {self.episodes} episodes of iteration {episode.assignment.iteration} "
                f"were excluded ({reasons}), more than rollout.max_excluded_fraction = {self.limit:g} allows; "
                f"for example {episode.cid}: {episode.exclusion.evidence[:300] or code}"
            )


Play = Callable[[Assignment], Awaitable[Episode]]
Dropped = Callable[[Group], None]


async def play_group(
    play: Play,
    cursor: SeedCursor,
    tally: Tally,
    on_drop: Dropped,
    *,
    iteration: int,
    index: int,
    size: int,
    fresh: Callable[[], int],
) -> Group:
    """Plays the next seed `size` times. A member that fails is played once more; failing again, its whole group
    is dropped and the next seed takes its place under a number of its own from `fresh`."""
    replaces = None
    number = index
    while True:
        seed = cursor.next()
        members = await gather_all(
            [_play_member(play, tally, Assignment("train", iteration, number, m, seed)) for m in range(size)]
        )
        group = Group(number, seed, members, replaces)
        if all(member.exclusion is None for member in members):
            return group
        tally.dropped_groups += 1
        on_drop(group)
        replaces, number = number, fresh()


async def _play_member(play: Play, tally: Tally, assignment: Assignment) -> Episode:
    episode = await play(assignment)
    if episode.exclusion is None:
        return episode
    tally.exclude(episode)
    episode = await play(replace(assignment, replay=1))
    if episode.exclusion is not None:
        tally.exclude(episode)
    return episode


async def gather_all(coroutines: list[Awaitable[Episode]]) -> list[Episode]:
    """Like gather, but the first failure cancels the others and is raised as itself."""
    tasks = [asyncio.ensure_future(c) for c in coroutines]
    try:
        return await asyncio.gather(*tasks)
    finally:
        for task in tasks:
            task.cancel()


async def collect(
    play: Play,
    cursor: SeedCursor,
    on_drop: Dropped,
    *,
    iteration: int,
    groups: int,
    size: int,
    max_excluded_fraction: float,
) -> tuple[list[Group], Tally]:
    """An iteration's E = groups x size episodes, whatever fails on the way.

    Raises:
        TooManyExcluded: more than `max_excluded_fraction` of E were excluded.
    """
    tally = Tally(groups * size, max_excluded_fraction)
    spare = iter(range(groups, 1 << 30))
    tasks = [
        asyncio.ensure_future(
            play_group(
                play,
                cursor,
                tally,
                on_drop,
                iteration=iteration,
                index=i,
                size=size,
                fresh=lambda: next(spare),
            )
        )
        for i in range(groups)
    ]
    try:
        return list(await asyncio.gather(*tasks)), tally
    finally:
        for task in tasks:
            task.cancel()
