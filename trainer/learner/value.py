"""The critic of ppo: a value head on the last hidden state, and what a micro-batch's advantages are made of.

Values are those of the step's own forward pass, before its update. An engine has no value head, so there are none from
the time of sampling; and a sequence is learned from once, so no value that its advantages are made of has been fitted
to it. That is what matters: a critic fitted to a sequence first would make its advantages vanish (Schulman et al.,
arXiv 1506.02438, section 6.1; arXiv 1707.06347, algorithm 1, has them before the updates as well).
"""

from __future__ import annotations

from collections.abc import Sequence as Items
from dataclasses import dataclass

import numpy as np
import torch
from torch import Tensor

from trainer.learner.batches import MicroBatch, TrainSequence
from trainer.learner.gae import advantages
from trainer.learner.protocol import LearnerSettings


class ValueHead:
    """V = w h + b in fp32, 0 at the start. `trainable` goes into the optimizer beside the policy's own."""

    def __init__(self, width: int, device: torch.device) -> None:
        self.trainable = {
            "value_head.weight": torch.zeros(width, device=device, requires_grad=True),
            "value_head.bias": torch.zeros((), device=device, requires_grad=True),
        }

    def __call__(self, hidden: Tensor) -> Tensor:
        """[M] of hidden states [M, H]. Its gradient goes on into the body that it shares with the policy."""
        weight, bias = self.trainable.values()
        return (hidden.float() * weight).sum(-1) + bias

    @torch.no_grad()
    def load(self, tensors: dict[str, Tensor]) -> None:
        """KeyError, RuntimeError: they are not those of this head."""
        for name, parameter in self.trainable.items():
            parameter.copy_(tensors[name])


@dataclass(frozen=True, slots=True)
class Critic:
    """What the critic says of a micro-batch, [B, T] each, 0 where nothing was sampled."""

    value: Tensor  # carries gradient
    advantage: Tensor
    returns: Tensor


def estimate(batch: MicroBatch, sequences: Items[TrainSequence], value: Tensor, settings: LearnerSettings) -> Critic:
    """value [B, T]."""
    values = value.detach().double().cpu().numpy()
    found, returns = np.zeros_like(values), np.zeros_like(values)
    for b, row in enumerate(batch.rows):
        sequence = sequences[row]
        assert sequence.reward is not None, "decode() gives every sequence its rewards"
        places = np.flatnonzero(sequence.mask)
        own = values[b, places]
        rewards = sequence.reward[places].astype(np.float64)
        found[b, places] = advantages(rewards, own, gamma=settings.gamma, gae_lambda=settings.gae_lambda)
        returns[b, places] = found[b, places] + own
    return Critic(value, *(torch.from_numpy(a).to(value.device, value.dtype) for a in (found, returns)))
