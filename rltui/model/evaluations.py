"""The evaluations of a run seed by seed, read from its episodes."""

from __future__ import annotations

import time
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property
from math import isfinite

from rltui.model.episodes import EpisodeRows
from rltui.sources.base import Json

ROWS = 2_000  # of the index, decoded at a time
_FIELDS = ("split", "iteration", "seed", "member", "R")


@dataclass(frozen=True)
class Played:
    """One episode: its number, and its reward, None where it was left out."""

    n: int
    reward: float | None


@dataclass(frozen=True)
class Evaluation:
    """`step`: optimizer updates done at its start. `seeds`: the episodes of each seed, by repeat."""

    step: int
    iteration: int
    seeds: Mapping[int, tuple[Played, ...]]

    @cached_property
    def rewards(self) -> dict[int, float]:
        """Mean reward of each seed that has one."""
        found = {}
        for seed, played in self.seeds.items():
            known = [one.reward for one in played if one.reward is not None]
            if known:
                found[seed] = sum(known) / len(known)
        return found

    @property
    def mean(self) -> float | None:
        """Over seeds."""
        rewards = self.rewards
        return sum(rewards.values()) / len(rewards) if rewards else None

    @property
    def unscored(self) -> int:
        """Episodes that were left out."""
        return sum(one.reward is None for played in self.seeds.values() for one in played)


class Evaluations:
    """`refresh` belongs to the thread that reads; `found` is replaced as it grows, oldest first."""

    def __init__(self, rows: EpisodeRows) -> None:
        self._rows = rows
        self._version = rows.version
        self._clear()

    def _clear(self) -> None:
        self.found: tuple[Evaluation, ...] = ()
        self.scanned = 0  # episodes looked at
        self._played: dict[int, dict[tuple[int, int], Played]] = {}  # by iteration, by (seed, repeat)
        self._starts: dict[int, tuple[int, int]] = {}  # of an iteration's evaluation: (attempt, step)

    @property
    def total(self) -> int:
        """Episodes to look at."""
        return self._rows.recorded

    def at(self, step: int | None) -> Evaluation | None:
        """The newest, or the newest at or before `step`."""
        found = self.found if step is None else [one for one in self.found if one.step <= step]
        return found[-1] if found else None

    def refresh(self, budget_s: float = 0.05) -> tuple[bool, bool]:
        """(whether there is something new, whether there is more to look at). Unreadable."""
        deadline = time.perf_counter() + budget_s
        if self._rows.version != self._version:  # some of what was read no longer counts
            self._version = self._rows.version
            self._clear()
        touched: set[int] = set()
        while self.scanned < self.total:
            end = min(self.total, self.scanned + ROWS)
            for row in self._rows.source.index(self.scanned, end, _FIELDS):
                if row.get("split") == "eval":
                    touched |= self._take(row)
            self.scanned = end
            if time.perf_counter() > deadline:
                break
        if touched:
            known = {one.iteration: one for one in self.found}
            known |= {iteration: self._built(iteration) for iteration in touched}
            self.found = tuple(sorted(known.values(), key=lambda one: (one.step, one.iteration)))
        return bool(touched), self.scanned < self.total

    def _take(self, row: Json) -> set[int]:
        """The iteration whose evaluation has changed; a later attempt's takes the place of an earlier one's."""
        iteration, seed, member, n = (row.get(name) for name in ("iteration", "seed", "member", "n"))
        if not (isinstance(iteration, int) and isinstance(seed, int) and isinstance(n, int)):
            return set()
        attempt, step = row.get("attempt"), row.get("step")
        attempt, step = (value if isinstance(value, int) else 0 for value in (attempt, step))
        start = self._starts.get(iteration)
        if start is None or attempt > start[0]:
            self._starts[iteration], self._played[iteration] = (attempt, step), {}
        reward = row.get("R")
        known = float(reward) if isinstance(reward, int | float) and isfinite(reward) else None
        self._played[iteration][seed, member if isinstance(member, int) else 0] = Played(n, known)
        return {iteration}

    def _built(self, iteration: int) -> Evaluation:
        seeds: dict[int, list[Played]] = {}
        for (seed, _), played in sorted(self._played[iteration].items(), key=lambda item: item[0]):
            seeds.setdefault(seed, []).append(played)
        return Evaluation(
            self._starts[iteration][1], iteration, {seed: tuple(played) for seed, played in seeds.items()}
        )
