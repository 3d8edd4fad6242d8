"""The losses as a plain loop over tokens, written from the formulas of the design; it shares no code with loss.py."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor


@dataclass
class Sampled:
    """The sampled tokens of one sequence. Arrays [T_i]."""

    logp: Tensor  # float64, carries gradient
    behavior: NDArray[np.float64]
    advantage: NDArray[np.float64]
    weight: float
    proximal: NDArray[np.float64] | None = None  # None: the anchor is the behaviour
    reference: Tensor | None = None
    value: Tensor | None = None  # float64, carries gradient
    returns: Tensor | None = None

    @property
    def c(self) -> float:
        return 1.0 if self.proximal is None else min(math.exp((self.proximal - self.behavior).mean()), 2.0)


def loop_loss(
    variety: str,
    sequences: Sequence[Sampled],
    *,
    low: float,
    high: float,
    kl_coef: float,
    episode_tokens: int,
    value_coef: float = 0.0,
) -> tuple[Tensor, float]:
    """(loss, KL to the reference: mean over episodes of the mean over tokens)."""
    n = sum(x.weight for x in sequences)
    loss, kl = torch.zeros((), dtype=torch.float64), 0.0
    for x in sequences:
        anchor = torch.from_numpy(x.behavior if x.proximal is None else x.proximal)
        s = torch.exp((x.logp - anchor).mean())
        objective = torch.zeros((), dtype=torch.float64)
        for t in range(len(x.logp)):
            match variety:
                case "gspo":
                    ratio = s
                case "gspo_token":
                    ratio = s.detach() * torch.exp(x.logp[t]) / torch.exp(x.logp[t]).detach()
                case _:
                    ratio = torch.exp(x.logp[t] - anchor[t])
            a = float(x.advantage[t])
            clipped = min(max(ratio.item(), 1 - low), 1 + high)
            objective = objective + (ratio * a if ratio.item() * a <= clipped * a else clipped * a)
        length = episode_tokens if variety == "dr_grpo" else len(x.logp)
        loss = loss - x.weight * x.c * objective / length / n
        if variety == "ppo":
            for value, target in zip(x.value, x.returns, strict=True):
                loss = loss + value_coef * x.weight * (value - target) ** 2 / length / n
        if x.reference is not None:
            k3 = torch.exp(x.reference - x.logp) - 1 - (x.reference - x.logp)
            loss = loss + kl_coef * x.weight * k3.sum() / length / n
            kl += x.weight * k3.mean().item() / n
    return loss, kl
