"""Which task seed a group plays (CONFIG 3), and the seed of each sampled call (WIRE 2.3)."""

from __future__ import annotations

from collections.abc import Collection, Iterable


class SeedCursor:
    """Training seeds in order: start, start + 1, ..., skipping held-out ones, wrapping after `count`.

    The position is part of a checkpoint, so that a resumed run neither repeats nor skips a seed.
    """

    def __init__(self, start: int, count: int | None, held_out: Iterable[int], position: int = 0) -> None:
        self._start, self._count, self._held_out = start, count, frozenset(held_out)
        self.position = position
        if count is not None and not any(start + i not in self._held_out for i in range(count)):
            raise ValueError(f"all {count} training seeds from {start} are held out for evaluation")

    @property
    def wraps(self) -> int:
        return 0 if self._count is None else self.position // self._count

    def next(self) -> int:
        while True:
            offset = self.position if self._count is None else self.position % self._count
            self.position += 1
            if self._start + offset not in self._held_out:
                return self._start + offset


def evaluation_plan(seeds: Collection[int], instances: int) -> list[int]:
    """Seed of each evaluation episode: episode i plays seeds[i mod len(seeds)]."""
    ordered = list(seeds)
    return [ordered[i % len(ordered)] for i in range(instances)]
