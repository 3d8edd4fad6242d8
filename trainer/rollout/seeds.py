"""Which task seed a group plays (CONFIG 3), and the seed of each sampled call (WIRE 2.3)."""

from __future__ import annotations

from collections import Counter, deque
from collections.abc import Iterable, Sequence
from typing import Any


class SeedCursor:
    """Training seeds in order: start, start + 1, ..., skipping held-out ones, wrapping after `count`.

    The position is part of a checkpoint, so that a resumed run neither repeats nor skips a seed.
    """

    def __init__(
        self,
        start: int,
        count: int | None,
        held_out: Iterable[int],
        position: int = 0,
        group: int = 0,
        again: Iterable[Sequence[int]] = (),
    ) -> None:
        """position, group, again: of `state`. `again` holds [number, seed] of groups to be played first: they were
        begun and came into no batch."""
        self._start, self._count, self._held_out = start, count, frozenset(held_out)
        self._again = deque((number, seed) for number, seed in again)
        self.position, self.group = position, group
        if count is not None and not any(start + i not in self._held_out for i in range(count)):
            raise ValueError(f"all {count} training seeds from {start} are held out for evaluation")

    @property
    def wraps(self) -> int:
        return 0 if self._count is None else self.position // self._count

    def state(self) -> dict[str, Any]:
        """The `cursor` entry of a checkpoint's state (WIRE 5.9)."""
        return {
            "seed": self.position,
            "group": self.group,
            "wraps": self.wraps,
            "again": [list(group) for group in self._again],
        }

    def next_group(self) -> tuple[int, int]:
        """(number, seed) of the next group; numbers count from the beginning of the run."""
        if self._again:
            return self._again.popleft()
        self.group += 1
        return self.group - 1, self.next()

    def next(self) -> int:
        while True:
            offset = self.position if self._count is None else self.position % self._count
            self.position += 1
            if self._start + offset not in self._held_out:
                return self._start + offset


def evaluation_plan(seeds: Sequence[int], instances: int) -> list[tuple[int, int]]:
    """(seed, which play of that seed this is, from 0) of each evaluation episode: episode i plays seeds[i mod len].

    The same in every evaluation and in every run of the same seeds, so that their episodes compare one by one.
    """
    played: Counter[int] = Counter()
    plan = []
    for i in range(instances):
        seed = seeds[i % len(seeds)]
        plan.append((seed, played[seed]))
        played[seed] += 1
    return plan
