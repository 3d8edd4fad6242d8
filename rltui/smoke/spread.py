"""What rewards a training run would compare: their spread over seeds and within groups. Pure.

A group whose rewards are all equal teaches nothing. Its probability at size G follows from the chance p of a success
on a seed, of which k tries with s successes tell Beta(1/2 + s, 1/2 + k - s) (Jeffreys prior):
E[p^G + (1 - p)^G], and of other rewards from drawing G of those that were seen, with replacement.
"""

from __future__ import annotations

import math
import statistics
from collections.abc import Sequence

from rltui.smoke.report import Episode, GroupForecast, SeedSpread, Spread
from trainer.rewards.advantages import DEAD_RANGE

SIZES = (4, 8, 16)
LOW, HIGH = 0.0, 1.0  # where rewards are expected: judge scores and the apps of this contract stay there
NO_MODEL = {
    "mock": "random answers tell nothing of a model's rewards: play with --policy self",
    "scripted": "fixed answers tell nothing of a model's rewards: play with --policy self",
    "human": "a person's play tells nothing of a model's rewards: play with --policy self",
}


def spread_of(episodes: Sequence[Episode], group_size: int, *, could_earn: bool = True) -> Spread:
    """Of the episodes that were scored; excluded ones count nowhere.

    group_size: of the test, with which it says whether a seed was played often enough to warn of equal rewards.
    could_earn: whether rewards of 0 say anything, with who played.
    """
    rewards: dict[int, list[float]] = {}
    for episode in episodes:
        if episode.R is not None:
            rewards.setdefault(episode.seed, []).append(episode.R)
    seeds = tuple(_seed(seed, found) for seed, found in rewards.items())
    every = [reward for seed in seeds for reward in seed.rewards]
    names = {episode.policy for episode in episodes if episode.R is not None}
    unpredicted = next((NO_MODEL[name] for name in NO_MODEL if name in names), "")
    predicted = () if unpredicted else _predicted(seeds)
    if not unpredicted and not predicted:
        unpredicted = "no seed has the two finished episodes that a prediction needs"
    elif not unpredicted and (others := sorted(names - {"self"})):
        unpredicted = f"this is what {', '.join(others)} would meet, not the model to be trained: see --policy self"
    return Spread(
        seeds=seeds,
        mean=statistics.fmean(every) if every else None,
        std=statistics.pstdev(every) if every else None,
        low=min(every, default=None),
        high=max(every, default=None),
        predicted=predicted,
        unpredicted=unpredicted,
        warnings=_warnings(seeds, every, group_size) if could_earn or any(every) else (),
    )


def all_equal_binary(successes: int, tries: int, group_size: int) -> float:
    """E[p^G + (1 - p)^G] under Beta(1/2 + s, 1/2 + k - s): B(a + G, b) / B(a, b) + B(a, b + G) / B(a, b), whose
    quotients are products of G factors."""
    a, b = 0.5 + successes, 0.5 + tries - successes
    return sum(math.prod((x + i) / (a + b + i) for i in range(group_size)) for x in (a, b))


def all_equal_resampled(rewards: Sequence[float], group_size: int) -> float:
    """The probability that G draws with replacement from `rewards` are all equal: what resampling them without end
    would come to, so there is no chance in it."""
    return sum((count / len(rewards)) ** group_size for count in _counts(rewards))


def _seed(seed: int, rewards: list[float]) -> SeedSpread:
    dead = len(rewards) > 1 and max(rewards) - min(rewards) <= DEAD_RANGE
    return SeedSpread(seed, tuple(rewards), statistics.fmean(rewards), dead)


def _counts(rewards: Sequence[float]) -> list[int]:
    """How often each reward occurs; those that a group would call equal are one."""
    counts: list[int] = []
    first = -math.inf
    for reward in sorted(rewards):
        if reward - first <= DEAD_RANGE:
            counts[-1] += 1
        else:
            first = reward
            counts.append(1)
    return counts


def _predicted(seeds: Sequence[SeedSpread]) -> tuple[GroupForecast, ...]:
    binary = all(reward in (0, 1) for seed in seeds for reward in seed.rewards)
    used = seeds if binary else [seed for seed in seeds if len(seed.rewards) > 1]
    if not any(len(seed.rewards) > 1 for seed in used):
        return ()
    found = []
    for size in SIZES:
        if binary:
            shares = [all_equal_binary(sum(r == 1 for r in s.rewards), len(s.rewards), size) for s in used]
        else:
            shares = [all_equal_resampled(s.rewards, size) for s in used]
        found.append(GroupForecast(size, statistics.fmean(shares), len(used)))
    return tuple(found)


def _warnings(seeds: Sequence[SeedSpread], every: Sequence[float], group_size: int) -> tuple[str, ...]:
    found = []
    if len(every) > 1 and max(every) - min(every) <= DEAD_RANGE:
        found.append(f"all {len(every)} rewards are {every[0]:g}: nothing to learn from")
    elif group_size > 1:
        grouped = [seed for seed in seeds if len(seed.rewards) > 1]
        if grouped and all(seed.dead for seed in grouped):
            found.append(f"rewards differ between seeds, but within each of {len(grouped)} seeds they are all equal")
    if outside := [reward for reward in every if not LOW <= reward <= HIGH]:
        farthest = max(outside, key=lambda reward: abs(reward - 0.5))
        found.append(f"{len(outside)} of {len(every)} rewards lie outside 0 to 1 (such as {farthest:g})")
    return tuple(found)
