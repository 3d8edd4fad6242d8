"""Group-relative advantages (DESIGN 4, CONFIG 6; GRPO, arXiv 2402.03300 section 4.1)."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial

import numpy as np
from numpy.typing import NDArray

from trainer.rewards.episode import EpisodeReward

DEAD_RANGE = 1e-6
STD_EPSILON = 1e-6


@dataclass(frozen=True, slots=True)
class GroupAdvantages:
    """Advantages of one group of G episodes, in their order. A dead group has no signal: it is left out."""

    mean: float  # of the rewards
    std: float  # of the rewards; population, ddof 0
    dead: bool  # max - min <= 1e-6: of the rewards, or of all advantages where they are per turn
    advantages: NDArray[np.float64]  # [G]; per turn: the mean over the turns of each; 0 when dead, NaN for a critic
    turns: tuple[NDArray[np.float64], ...] | None = None  # per turn: [turns] of each episode


def scorer(variety: str, std: bool) -> Callable[[Sequence[EpisodeReward]], GroupAdvantages]:
    """How `variety` of algorithm compares the members of a group; `std`: by their deviation too."""
    return critic_advantages if variety == "ppo" else partial(score_group, std=std)


def score_group(rewards: Sequence[EpisodeReward], std: bool = True) -> GroupAdvantages:
    """The advantages of a whole group; one for each turn where the episodes have returns per turn."""
    totals = [reward.total for reward in rewards]
    if all(reward.returns for reward in rewards):
        return turn_advantages([reward.returns for reward in rewards], totals, std)
    return group_advantages(totals, std)


def critic_advantages(rewards: Sequence[EpisodeReward]) -> GroupAdvantages:
    """With ppo a group is no baseline: its advantages are the learner's to make, and equal rewards leave nobody out."""
    r = _finite([reward.total for reward in rewards])
    return GroupAdvantages(*mean_and_std(r), False, np.full_like(r, np.nan))


def group_advantages(rewards: Sequence[float], std: bool = True) -> GroupAdvantages:
    """(r - mean) / (std + 1e-6), or r - mean without `std`. ValueError for no rewards or one that is not
    finite.
    """
    r = _finite(rewards)
    mean, deviation = mean_and_std(r)
    scale, r = _shrunk(r)
    if r.max() - r.min() <= np.ldexp(DEAD_RANGE, -scale):
        return GroupAdvantages(mean, deviation, True, np.zeros_like(r))
    centred = r - r.mean()
    if std:
        return GroupAdvantages(mean, deviation, False, centred / (r.std() + np.ldexp(STD_EPSILON, -scale)))
    largest = np.ldexp(np.finfo(np.float64).max, -scale)
    return GroupAdvantages(mean, deviation, False, np.ldexp(np.clip(centred, -largest, largest), scale))


def turn_advantages(returns: Sequence[Sequence[float]], rewards: Sequence[float], std: bool = True) -> GroupAdvantages:
    """(G_t - mean of G_t over the episodes that reach turn t) / (std of all G of the group + 1e-6).

    A turn that fewer than two episodes reach is compared with the mean over all turns of the group.

    Args:
        returns: [G][turns] G_t, at least one turn an episode.
        rewards: [G] R.
    """
    r, g = _finite(rewards), [_finite(episode) for episode in returns]
    every = np.concatenate(g)
    at = [np.array([episode[t] for episode in g if len(episode) > t]) for t in range(max(map(len, g)))]
    baseline = np.array([reached.mean() if len(reached) > 1 else every.mean() for reached in at])
    scale = every.std() + STD_EPSILON if std else 1.0
    turns = tuple((episode - baseline[: len(episode)]) / scale for episode in g)
    all_turns = np.concatenate(turns)
    dead = bool(all_turns.max() - all_turns.min() <= DEAD_RANGE)
    means = np.zeros_like(r) if dead else np.array([episode.mean() for episode in turns])
    return GroupAdvantages(*mean_and_std(r), dead, means, turns)


def mean_and_std(values: NDArray[np.float64]) -> tuple[float, float]:
    """Mean and population standard deviation of finite values, finite however large these are."""
    scale, shrunk = _shrunk(values)
    return float(np.ldexp(shrunk.mean(), scale)), float(np.ldexp(shrunk.std(), scale))


def _shrunk(values: NDArray[np.float64]) -> tuple[int, NDArray[np.float64]]:
    """(k, values / 2^k) such that no sum and no square overflows. The scaling is exact; k is 0 below 2^400."""
    scale = max(0, int(np.frexp(np.abs(values).max())[1]) - 400)
    return scale, np.ldexp(values, -scale)


def _finite(values: Sequence[float]) -> NDArray[np.float64]:
    array = np.asarray(values, dtype=np.float64)
    if array.ndim != 1 or not array.size or not np.isfinite(array).all():
        raise ValueError(f"advantages need a flat list of finite rewards, got {list(values)!r}")
    return array
