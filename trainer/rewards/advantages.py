"""Group-relative advantages (DESIGN 4; GRPO, arXiv 2402.03300 section 4.1)."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

DEAD_RANGE = 1e-6
STD_EPSILON = 1e-6


@dataclass(frozen=True, slots=True)
class GroupAdvantages:
    """Advantages of one group, in the order of its rewards. A dead group has no signal: it is left out."""

    mean: float
    std: float  # population, ddof 0
    dead: bool  # max - min <= 1e-6
    advantages: NDArray[np.float64]  # [G]; zeros when dead, NaN where a critic gives them


def group_advantages(rewards: Sequence[float], std: bool = True) -> GroupAdvantages:
    """(r - mean) / (std + 1e-6), or r - mean without `std`. ValueError for no rewards or one that is not
    finite.
    """
    r = np.asarray(rewards, dtype=np.float64)
    if r.ndim != 1 or not r.size or not np.isfinite(r).all():
        raise ValueError(f"advantages need a flat list of finite rewards, got {list(rewards)!r}")
    mean, deviation = mean_and_std(r)
    scale, r = _shrunk(r)
    if r.max() - r.min() <= np.ldexp(DEAD_RANGE, -scale):
        return GroupAdvantages(mean, deviation, True, np.zeros_like(r))
    centred = r - r.mean()
    if std:
        return GroupAdvantages(mean, deviation, False, centred / (r.std() + np.ldexp(STD_EPSILON, -scale)))
    largest = np.ldexp(np.finfo(np.float64).max, -scale)
    return GroupAdvantages(mean, deviation, False, np.ldexp(np.clip(centred, -largest, largest), scale))


def mean_and_std(values: NDArray[np.float64]) -> tuple[float, float]:
    """Mean and population standard deviation of finite values, finite however large these are."""
    scale, shrunk = _shrunk(values)
    return float(np.ldexp(shrunk.mean(), scale)), float(np.ldexp(shrunk.std(), scale))


def _shrunk(values: NDArray[np.float64]) -> tuple[int, NDArray[np.float64]]:
    """(k, values / 2^k) such that no sum and no square overflows. The scaling is exact; k is 0 below 2^400."""
    scale = max(0, int(np.frexp(np.abs(values).max())[1]) - 400)
    return scale, np.ldexp(values, -scale)


def critic_advantages(rewards: Sequence[float]) -> GroupAdvantages:
    """With ppo a group is no baseline: its advantages are the learner's to make, and equal rewards leave nobody out."""
    r = np.asarray(rewards, dtype=np.float64)
    return GroupAdvantages(*mean_and_std(r), False, np.full_like(r, np.nan))
