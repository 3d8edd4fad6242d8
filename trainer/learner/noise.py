"""How much of the clipping is numeric noise alone (DESIGN 4, CONFIG 5). Pure functions."""

from __future__ import annotations

import math
from collections.abc import Sequence
from statistics import NormalDist, fmean

MIN_BAND = 0.01


def sequence_noise(log_ratios: Sequence[float]) -> float | None:
    """sd_seq: the spread of the mean log-ratio over lag-0 sequences, where only noise moves it. None below two.

    Measured on whole sequences since token noise is correlated: sigma / sqrt(T) would be too small.
    """
    if len(log_ratios) < 2:
        return None
    mean = fmean(log_ratios)
    return math.sqrt(sum((x - mean) ** 2 for x in log_ratios) / (len(log_ratios) - 1))


def clip_noise_floor(sd_seq: float, eps_low: float, eps_high: float) -> float:
    """Fraction of sequences clipped if log s were N(0, sd_seq^2): half of each tail, as half have that sign
    of A.
    """
    if sd_seq <= 0.0:
        return 0.0
    noise = NormalDist(0.0, sd_seq)
    low = noise.cdf(math.log1p(-eps_low)) if eps_low < 1.0 else 0.0
    high = 1.0 - noise.cdf(math.log1p(eps_high))
    return 0.5 * (low + high)


def ratio_band(sd_seq: float | None) -> float:
    """Half-width of the band in which a ratio is ordinary: max(1 %, 3 sd_seq)."""
    return max(MIN_BAND, 3.0 * (sd_seq or 0.0))
