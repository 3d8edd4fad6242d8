"""What a step reports of its sequences (names of DESIGN 7). Pure functions over arrays of float64."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from trainer.learner.gae import explained_variance
from trainer.learner.noise import MAX_LOG_RATIO, clip_noise_floor, ratio_band


@dataclass(frozen=True, slots=True)
class SequenceFigures:
    """One sequence, before the update. `delta` is learner - behaviour on its sampled tokens [T_i]."""

    mean_log_ratio: float  # learner - anchor, not clamped
    ratio: float  # s_i
    log_ratios: NDArray[np.float64]  # what the clip sees: the sequence's [1], or its tokens' [T_i]
    weight: float
    correction: float  # importance weight of anchor over behaviour
    clipped_low: float  # share of its sampled tokens
    clipped_high: float
    delta: NDArray[np.float64]
    entropy: NDArray[np.float64]  # [T_i]
    kl: float | None = None  # to the reference, mean over its tokens
    value: NDArray[np.float64] | None = None  # [T_i] ppo: of the critic
    returns: NDArray[np.float64] | None = None  # [T_i] ppo: what it is fitted to

    @property
    def clip(self) -> str:
        """none, low or high: the side that took the gradient from more of its tokens."""
        if self.clipped_low == self.clipped_high == 0.0:
            return "none"
        return "low" if self.clipped_low > self.clipped_high else "high"


def effective_sample_size(weights: NDArray[np.float64]) -> float:
    """Kish: (sum w)^2 / sum w^2, between 1 and the number of sequences."""
    return float(weights.sum() ** 2 / (weights**2).sum())


def mismatch_kl(delta: NDArray[np.float64]) -> NDArray[np.float64]:
    """Per token, the estimator exp(d) - 1 - d of KL(behaviour | learner): never negative, unbiased
    (Schulman's k3).
    """
    return np.expm1(delta) - delta


def step_metrics(
    sequences: list[SequenceFigures], sd_seq: float | None, sd_clip: float | None, eps_low: float, eps_high: float
) -> dict[str, float]:
    """Of the sequences of a step.

    Of a token-level ratio (grpo, dr_grpo, ppo) gspo/ratio_{min,max} are those of a token, ratio_mean is the mean over
    sequences of the mean over their tokens, and a clip fraction is the mean over sequences of the share of tokens
    that were clipped; of gspo and gspo_token all of them are the sequence's. ratio_out_of_band_frac and ess are always
    about whole sequences: the geometric mean of their token ratios. With ppo ppo/explained_variance says how much of
    the returns the critic foretold; ppo/value_loss, a part of the loss, is not made here.

    Args:
        sd_seq: noise of a sequence's mean log-ratio between engine and learner; None: not measured.
        sd_clip: noise of the log-ratio that the clip sees; None: not measured.
    """
    with np.errstate(all="ignore"):  # what is not finite is left out by `split_finite` and named
        ratio = np.array([s.ratio for s in sequences])
        weight = np.array([s.weight for s in sequences])
        correction = np.array([s.correction for s in sequences])
        seen_by_clip = [np.exp(np.minimum(s.log_ratios, MAX_LOG_RATIO)) for s in sequences]
        delta = np.concatenate([s.delta for s in sequences])
        kl, gap = mismatch_kl(delta), np.abs(delta)
        values = {
            "gspo/ratio_mean": float(np.mean([r.mean() for r in seen_by_clip])),
            "gspo/ratio_min": float(np.min([r.min() for r in seen_by_clip])),
            "gspo/ratio_max": float(np.max([r.max() for r in seen_by_clip])),
            "gspo/ratio_out_of_band_frac": float((np.abs(ratio - 1.0) > ratio_band(sd_seq)).mean()),
            "gspo/clip_frac_low": float(np.mean([s.clipped_low for s in sequences])),
            "gspo/clip_frac_high": float(np.mean([s.clipped_high for s in sequences])),
            "logp_gap/mean": float(gap.mean()),
            "logp_gap/sd": float(gap.std()),
            "mismatch_kl/mean": float(kl.mean()),
            "mismatch_kl/max": float(kl.max()),
            "ess": effective_sample_size(ratio * correction * weight),
            "entropy": float(np.concatenate([s.entropy for s in sequences]).mean()),
        }
        penalties = np.array([s.kl for s in sequences if s.kl is not None])
        if penalties.size:
            values["gspo/kl"] = float((weight * penalties).sum() / weight.sum())
        values |= _critic_metrics(sequences)
    if sd_clip is not None:
        values["gspo/clip_noise_floor"] = clip_noise_floor(sd_clip, eps_low, eps_high)
    return values


def _critic_metrics(sequences: list[SequenceFigures]) -> dict[str, float]:
    """Over all sampled tokens of the step; empty without a critic, or where all returns are the same."""
    pairs = [(s.returns, s.value) for s in sequences if s.returns is not None and s.value is not None]
    if not pairs:
        return {}
    explained = explained_variance(*(np.concatenate(part) for part in zip(*pairs, strict=True)))
    return {} if explained is None else {"ppo/explained_variance": explained}


def split_finite(values: Mapping[str, float]) -> tuple[dict[str, float], list[str]]:
    """The finite values, and the names of the others."""
    finite = {name: value for name, value in values.items() if math.isfinite(value)}
    return finite, [name for name in values if name not in finite]
