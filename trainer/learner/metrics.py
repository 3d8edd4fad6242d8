"""What a step reports of its sequences (names of DESIGN 7). Pure functions over arrays of float64."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from trainer.learner.noise import clip_noise_floor, ratio_band


@dataclass(frozen=True, slots=True)
class SequenceFigures:
    """One sequence, before the update. `delta` is learner - behaviour on its sampled tokens [T_i]."""

    ratio: float
    weight: float
    clip: str  # none, low, high
    delta: NDArray[np.float64]
    entropy: NDArray[np.float64]  # [T_i]


def effective_sample_size(weights: NDArray[np.float64]) -> float:
    """Kish: (sum w)^2 / sum w^2, between 1 and the number of sequences."""
    return float(weights.sum() ** 2 / (weights**2).sum())


def mismatch_kl(delta: NDArray[np.float64]) -> NDArray[np.float64]:
    """Per token, the estimator exp(d) - 1 - d of KL(behaviour | learner): never negative, unbiased
    (Schulman's k3).
    """
    return np.expm1(delta) - delta


def step_metrics(
    sequences: list[SequenceFigures], sd_seq: float | None, eps_low: float, eps_high: float
) -> dict[str, float]:
    with np.errstate(all="ignore"):  # what is not finite is left out by `split_finite` and named
        ratio = np.array([s.ratio for s in sequences])
        delta = np.concatenate([s.delta for s in sequences])
        kl, gap = mismatch_kl(delta), np.abs(delta)
        values = {
            "gspo/ratio_mean": float(ratio.mean()),
            "gspo/ratio_min": float(ratio.min()),
            "gspo/ratio_max": float(ratio.max()),
            "gspo/ratio_out_of_band_frac": float((np.abs(ratio - 1.0) > ratio_band(sd_seq)).mean()),
            "gspo/clip_frac_low": sum(s.clip == "low" for s in sequences) / len(sequences),
            "gspo/clip_frac_high": sum(s.clip == "high" for s in sequences) / len(sequences),
            "logp_gap/mean": float(gap.mean()),
            "logp_gap/sd": float(gap.std()),
            "mismatch_kl/mean": float(kl.mean()),
            "mismatch_kl/max": float(kl.max()),
            "ess": effective_sample_size(ratio * np.array([s.weight for s in sequences])),
            "entropy": float(np.concatenate([s.entropy for s in sequences]).mean()),
        }
    if sd_seq is not None:
        values["gspo/clip_noise_floor"] = clip_noise_floor(sd_seq, eps_low, eps_high)
    return values


def split_finite(values: Mapping[str, float]) -> tuple[dict[str, float], list[str]]:
    """The finite values, and the names of the others."""
    finite = {name: value for name, value in values.items() if math.isfinite(value)}
    return finite, [name for name in values if name not in finite]
