"""How much of the clipping is numeric noise alone (DESIGN 4, CONFIG 5). Pure functions."""

from __future__ import annotations

import math
from statistics import NormalDist

import numpy as np
from numpy.typing import ArrayLike

MIN_BAND = 0.01
MAX_LOG_RATIO = 10.0  # a ratio is exp of at most this: it stays finite


def noise_of(log_ratios: ArrayLike) -> float | None:
    """The spread (ddof 1) of log-ratios that only noise moves; None below two.

    Of the mean log-ratios of lag-0 sequences it is sd_seq: token noise is correlated, so sigma / sqrt(T) would be too
    small. Of the tokens' own log-ratios it is what a token-level clip sees.
    """
    values = np.asarray(log_ratios, dtype=np.float64)
    return None if values.size < 2 else float(values.std(ddof=1))


def clip_noise_floor(sd: float, eps_low: float, eps_high: float) -> float:
    """Fraction clipped if the log-ratio were N(0, sd^2): half of each tail, as half have that sign of A."""
    if sd <= 0.0:
        return 0.0
    noise = NormalDist(0.0, sd)
    low = noise.cdf(math.log1p(-eps_low)) if eps_low < 1.0 else 0.0
    high = 1.0 - noise.cdf(math.log1p(eps_high))
    return 0.5 * (low + high)


def ratio_band(sd_seq: float | None) -> float:
    """Half-width of the band in which a ratio is ordinary: max(1 %, 3 sd_seq)."""
    return max(MIN_BAND, 3.0 * (sd_seq or 0.0))
