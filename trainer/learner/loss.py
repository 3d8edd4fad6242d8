"""The policy losses: pure functions over one typed input (DESIGN 4).

Axes: B sequences, T positions. GSPO: "Group Sequence Policy Optimization", arXiv 2507.18071, equations 5-7
(gspo) and 13-14 (gspo_token). GRPO: arXiv 2402.03300, equations 3-4. Dr. GRPO: arXiv 2503.20783, section 3.2.
PPO: arXiv 1707.06347, equations 7 and 9 (without its entropy term).
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace

import torch
from torch import Tensor

from trainer.learner.noise import MAX_LOG_RATIO


@dataclass(frozen=True, slots=True)
class LossInput:
    """What a loss sees of one micro-batch. `denominator` is that of the whole optimizer step."""

    logp: Tensor  # [B, T] log-probabilities of the policy, nats; anything where mask is False
    anchor: Tensor  # [B, T] of the anchor policy; anything where mask is False
    mask: Tensor  # [B, T] bool, True on tokens that the policy sampled
    advantage: Tensor  # [B, T], a constant; gspo reads one value a sequence, its first sampled token's
    weight: Tensor  # [B] see `sequence_weights`
    correction: Tensor  # [B] importance weight of anchor over behaviour, a constant; ones if they are the same
    denominator: float  # sum of weight over all micro-batches and ranks of the step
    clip_eps_low: float
    clip_eps_high: float
    episode_tokens: int  # max_turns x max_tokens: the length by which dr_grpo divides
    reference: Tensor | None = None  # [B, T] of the reference policy; None: no penalty
    kl_coef: float = 0.0
    value: Tensor | None = None  # [B, T] ppo: of the state in which each token was sampled, carries gradient
    returns: Tensor | None = None  # [B, T] ppo: what `value` is fitted to, a constant
    value_coef: float = 0.0


@dataclass(frozen=True, slots=True)
class LossOutput:
    """The loss to be summed over micro-batches, and what each sequence did (detached).

    A clip share is the part of a sequence's sampled tokens that the clip left without gradient: 0 or 1 where the
    ratio and the advantage are the sequence's (gspo), anything between where one of them is the token's.
    """

    loss: Tensor  # scalar
    log_ratio: Tensor  # [B] mean log-ratio, not clamped
    ratio: Tensor  # [B] s_i, the geometric mean of the token ratios, before the clip: of every variety
    clipped_low: Tensor  # [B] share
    clipped_high: Tensor  # [B] share
    kl: Tensor | None  # [B] mean over the tokens, not multiplied by kl_coef
    value_loss: Tensor | None = None  # scalar, a part of `loss` once multiplied by value_coef


Loss = Callable[[LossInput], LossOutput]


def gspo(x: LossInput) -> LossOutput:
    """-(1/N) sum_i w_i min(s_i A_i, clip(s_i) A_i) with s_i the length-normalised sequence ratio."""
    ratio = _exp(_mean_log_ratio(x)).unsqueeze(-1)
    first = x.mask.int().argmax(-1, keepdim=True)
    advantage = x.advantage.gather(-1, first)
    return _output(x, _clipped(ratio, advantage, x).squeeze(-1), ratio, advantage, _lengths(x))


def gspo_token(x: LossInput) -> LossOutput:
    """As gspo with s_it = sg[s_i] p_theta / sg[p_theta]: the same value, an advantage for each token."""
    mean = _mean_log_ratio(x).detach()
    # Beyond the clamp gspo has no gradient; neither has this.
    live = x.mask & (mean <= MAX_LOG_RATIO).unsqueeze(-1)
    own = torch.where(live, x.logp - x.logp.detach(), 0.0).exp()
    return _by_token(x, _exp(mean).unsqueeze(-1) * own, _lengths(x))


def grpo(x: LossInput) -> LossOutput:
    """-(1/N) sum_i w_i (1/T_i) sum_t min(r_it A_it, clip(r_it) A_it) with r_it the token's own ratio."""
    return _by_token(x, _exp(_log_ratio(x)), _lengths(x))


def dr_grpo(x: LossInput) -> LossOutput:
    """As grpo, but every sequence is divided by the same max_turns x max_tokens instead of its own length."""
    return _by_token(x, _exp(_log_ratio(x)), torch.full_like(_lengths(x), x.episode_tokens))


def ppo(x: LossInput) -> LossOutput:
    """As grpo with the advantages of a critic, which is fitted beside it: + value_coef (1/N) sum_i w_i (1/T_i) sum_t
    (V_it - return_it)^2. The critic shares the model's body, so both parts have to be one loss."""
    assert x.value is not None and x.returns is not None
    policy = grpo(x)
    error = _total((x.value - x.returns).square(), x) / _lengths(x)
    value_loss = (x.weight * error).sum() / x.denominator
    return replace(policy, loss=policy.loss + x.value_coef * value_loss, value_loss=value_loss.detach())


LOSSES: dict[str, Loss] = {"gspo": gspo, "gspo_token": gspo_token, "grpo": grpo, "dr_grpo": dr_grpo, "ppo": ppo}
TOKEN_LEVEL = frozenset({"grpo", "dr_grpo", "ppo"})  # the clip acts on each token's ratio, not on the sequence's


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


def k3(log_ratio: Tensor) -> Tensor:
    """Schulman's estimator of KL(policy | reference) from log reference - log policy: exp(d) - 1 - d, never
    negative. d is clamped as the ratio is: beyond it a token has no gradient.
    """
    d = log_ratio.clamp(max=MAX_LOG_RATIO)
    return torch.expm1(d) - d


def _by_token(x: LossInput, ratio: Tensor, count: Tensor) -> LossOutput:
    advantage = torch.where(x.mask, x.advantage, 0.0)
    return _output(x, _total(_clipped(ratio, advantage, x), x) / count, ratio, advantage, count)


def _output(x: LossInput, objective: Tensor, ratio: Tensor, advantage: Tensor, count: Tensor) -> LossOutput:
    """objective [B]; ratio and advantage [B, T] or [B, 1]; count [B]: what a sum over tokens is divided by."""
    lengths, mean = _lengths(x), _mean_log_ratio(x).detach()
    loss = -(x.weight * x.correction.detach() * objective).sum() / x.denominator
    kl = None
    if x.reference is not None:
        penalty = _total(k3(torch.where(x.mask, x.reference - x.logp, 0.0)), x)
        loss = loss + x.kl_coef * (x.weight * penalty / count).sum() / x.denominator
        kl = penalty.detach() / lengths
    low = (ratio.detach() < 1.0 - x.clip_eps_low) & (advantage < 0)
    high = (ratio.detach() > 1.0 + x.clip_eps_high) & (advantage > 0)
    return LossOutput(loss, mean, _exp(mean), _total(low, x) / lengths, _total(high, x) / lengths, kl)


def _clipped(ratio: Tensor, advantage: Tensor, x: LossInput) -> Tensor:
    return torch.minimum(ratio * advantage, ratio.clamp(1.0 - x.clip_eps_low, 1.0 + x.clip_eps_high) * advantage)


def _log_ratio(x: LossInput) -> Tensor:
    # where, not a product: 0 * inf is NaN
    return torch.where(x.mask, x.logp - x.anchor, 0.0)


def _mean_log_ratio(x: LossInput) -> Tensor:
    return _log_ratio(x).sum(-1) / _lengths(x)


def _exp(log_ratio: Tensor) -> Tensor:
    return log_ratio.clamp(max=MAX_LOG_RATIO).exp()


def _lengths(x: LossInput) -> Tensor:
    """[B] sampled tokens, in the type of the log-probabilities."""
    return x.mask.sum(-1).clamp(min=1).to(x.logp.dtype)


def _total(values: Tensor, x: LossInput) -> Tensor:
    """[B] sum over the sampled tokens of values [B, T] or [B, 1]."""
    return torch.where(x.mask, values, torch.zeros((), dtype=values.dtype, device=values.device)).sum(-1)
