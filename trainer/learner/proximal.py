"""The proximal anchor: how far a sequence's weights have moved since it was sampled (DESIGN 4). Pure functions."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from trainer.learner.noise import MAX_LOG_RATIO, ratio_band

MAX_CORRECTION = 2.0


def mean_log_ratio(proximal: NDArray[np.float32], behavior: NDArray[np.float32], mask: NDArray[np.bool_]) -> float:
    """log c: the mean over the sampled tokens of log proximal - log behaviour. Arrays [T]."""
    return float((proximal[mask].astype(np.float64) - behavior[mask]).mean())


def geometric_ratio(mean_log: float) -> float:
    """c of its logarithm, kept finite."""
    return float(np.exp(min(mean_log, MAX_LOG_RATIO)))


def correction(c: float) -> float:
    """What the sequence's loss is multiplied by: min(c, 2), a constant in the gradient."""
    return min(c, MAX_CORRECTION)


def band(sd_seq: float | None) -> tuple[float, float]:
    """c outside of it is masked: 1 -/+ max(1 %, 3 sd_seq)."""
    half = ratio_band(sd_seq)
    return 1.0 - half, 1.0 + half
