"""The policy losses: pure functions over one typed input (DESIGN 4).

Axes: B sequences, T positions. GSPO: "Group Sequence Policy Optimization", arXiv 2507.18071, equations 5-7
(gspo) and 13-14 (gspo_token).
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import torch
from torch import Tensor

MAX_LOG_RATIO = 10.0


@dataclass(frozen=True, slots=True)
class LossInput:
    """What a loss sees of one micro-batch. `denominator` is that of the whole optimizer step."""

    logp: Tensor  # [B, T] log-probabilities of the policy, nats; anything where mask is False
    anchor: Tensor  # [B, T] of the anchor policy; anything where mask is False
    mask: Tensor  # [B, T] bool, True on tokens that the policy sampled
    advantage: Tensor  # [B, T]; gspo reads one value a sequence, its first sampled token's
    weight: Tensor  # [B] see `sequence_weights`
    denominator: float  # sum of weight over all micro-batches and ranks of the step
    clip_eps_low: float
    clip_eps_high: float


@dataclass(frozen=True, slots=True)
class LossOutput:
    """The loss to be summed over micro-batches, and what each sequence did (detached)."""

    loss: Tensor  # scalar
    log_ratio: Tensor  # [B] mean log-ratio, not clamped
    ratio: Tensor  # [B] s_i, before the clip
    clipped_low: Tensor  # [B] bool: the lower clip took the gradient away
    clipped_high: Tensor  # [B] bool


Loss = Callable[[LossInput], LossOutput]


def gspo(x: LossInput) -> LossOutput:
    """-(1/N) sum_i w_i min(s_i A_i, clip(s_i) A_i) with s_i the length-normalised sequence ratio."""
    mean = _mean_log_ratio(x)
    ratio = mean.clamp(max=MAX_LOG_RATIO).exp()
    first = x.mask.int().argmax(-1, keepdim=True)
    advantage = x.advantage.gather(-1, first).squeeze(-1)
    return _output(x, _clipped(ratio, advantage, x), mean, ratio, advantage)


def gspo_token(x: LossInput) -> LossOutput:
    """As gspo with s_it = sg[s_i] p_theta / sg[p_theta]: the same value, an advantage for each token."""
    mean = _mean_log_ratio(x).detach()
    ratio = mean.clamp(max=MAX_LOG_RATIO).exp()
    # Beyond the clamp gspo has no gradient; neither has this.
    live = x.mask & (mean <= MAX_LOG_RATIO).unsqueeze(-1)
    own = torch.where(live, x.logp - x.logp.detach(), 0.0).exp()
    tokens = _clipped(ratio.unsqueeze(-1) * own, torch.where(x.mask, x.advantage, 0.0), x)
    lengths = x.mask.sum(-1).clamp(min=1)
    objective = torch.where(x.mask, tokens, 0.0).sum(-1) / lengths
    sign = torch.where(x.mask, x.advantage, 0.0).sum(-1) / lengths
    return _output(x, objective, mean, ratio, sign)


LOSSES: dict[str, Loss] = {"gspo": gspo, "gspo_token": gspo_token}


def sequence_weights(weight: Tensor, tokens: Tensor, aggregation: str) -> Tensor:
    """[B] what each sequence counts. `sequence_mean`: w_i, the paper. `length_weighted`: w_i T_i, another
    objective.
    """
    match aggregation:
        case "sequence_mean":
            return weight
        case "length_weighted":
            return weight * tokens
    raise ValueError(f"training.loss_aggregation {aggregation!r}: use sequence_mean or length_weighted")


def _mean_log_ratio(x: LossInput) -> Tensor:
    # where, not a product: 0 * inf is NaN
    log_ratio = torch.where(x.mask, x.logp - x.anchor, 0.0)
    return log_ratio.sum(-1) / x.mask.sum(-1).clamp(min=1)


def _clipped(ratio: Tensor, advantage: Tensor, x: LossInput) -> Tensor:
    return torch.minimum(ratio * advantage, ratio.clamp(1.0 - x.clip_eps_low, 1.0 + x.clip_eps_high) * advantage)


def _output(x: LossInput, objective: Tensor, mean: Tensor, ratio: Tensor, advantage: Tensor) -> LossOutput:
    ratio = ratio.detach()
    return LossOutput(
        loss=-(x.weight * objective).sum() / x.denominator,
        log_ratio=mean.detach(),
        ratio=ratio,
        clipped_low=(ratio < 1.0 - x.clip_eps_low) & (advantage < 0),
        clipped_high=(ratio > 1.0 + x.clip_eps_high) & (advantage > 0),
    )
