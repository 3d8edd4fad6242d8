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
    advantages: NDArray[np.float64]  # [G]; zeros when dead


def group_advantages(rewards: Sequence[float], std: bool = True) -> GroupAdvantages:
    """(r - mean) / (std + 1e-6), or r - mean without `std`. ValueError for no rewards or one that is not
    finite.
    """
    r = np.asarray(rewards, dtype=np.float64)
    if r.ndim != 1 or not r.size or not np.isfinite(r).all():
        raise ValueError(f"advantages need a flat list of finite rewards, got {list(rewards)!r}")
    mean, deviation = float(r.mean()), float(r.std())
    if r.max() - r.min() <= DEAD_RANGE:
        return GroupAdvantages(mean, deviation, True, np.zeros_like(r))
    centred = r - mean
    return GroupAdvantages(mean, deviation, False, centred / (deviation + STD_EPSILON) if std else centred)
