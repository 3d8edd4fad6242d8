"""AdamW on fp32 weights, the learning-rate schedules, and the figures of an update."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass

import torch
from torch import Tensor

BETAS = (0.9, 0.999)
EPSILON = 1e-8


@dataclass(frozen=True, slots=True)
class UpdateStats:
    lr: float
    grad_norm: float  # before clipping
    clipped: bool
    update_ratio: float  # |change| / |weights|; NaN or inf if the weights are no longer finite


def schedule(kind: str, step: int, warmup: int, total: int) -> float:
    """Factor on the peak rate for update `step`, counted from 1, of `total`; the warm-up rises linearly."""
    if step <= warmup:
        return step / warmup
    done = min(1.0, (step - 1 - warmup) / max(1, total - warmup))
    match kind:
        case "constant":
            return 1.0
        case "linear":
            return 1.0 - done
        case "cosine":
            return 0.5 * (1.0 + math.cos(math.pi * done))
    raise ValueError(f"training.lr_schedule {kind!r}: use constant, linear or cosine")


class Optimizer:
    """`parameters` are fp32 leaves by name; their `grad` is consumed by `step`."""

    def __init__(self, parameters: Mapping[str, Tensor], *, weight_decay: float, max_grad_norm: float) -> None:
        self._parameters = dict(parameters)
        self._decay, self._max_norm = weight_decay, max_grad_norm
        self._adam = torch.optim.AdamW(
            list(self._parameters.values()), betas=BETAS, eps=EPSILON, weight_decay=weight_decay, fused=True
        )

    def grad_norm(self) -> float:
        """Of all gradients so far; not finite if one of them is not."""
        gradients = [p.grad for p in self._parameters.values() if p.grad is not None]
        return torch.nn.utils.get_total_norm(gradients).item() if gradients else 0.0

    def discard(self) -> None:
        self._adam.zero_grad(set_to_none=True)

    def step(self, lr: float) -> UpdateStats:
        """One update from gradients that are finite; the caller has checked `grad_norm`."""
        norm = self.grad_norm()
        clipped = norm > self._max_norm
        if clipped:
            gradients = [p.grad for p in self._parameters.values() if p.grad is not None]
            torch._foreach_mul_(gradients, self._max_norm / norm)
        for group in self._adam.param_groups:
            group["lr"] = lr
        self._adam.step()
        self.discard()
        return UpdateStats(lr, norm, clipped, self._update_ratio(lr))

    @torch.no_grad()
    def _update_ratio(self, lr: float) -> float:
        """From Adam's moments instead of a copy of the weights from before, which `full` has no room for."""
        change = weights = 0.0
        for parameter, state in self._adam.state.items():
            t = float(state["step"])
            first = state["exp_avg"] / (1.0 - BETAS[0] ** t)
            second = (state["exp_avg_sq"] / (1.0 - BETAS[1] ** t)).sqrt_().add_(EPSILON)
            change += first.div_(second).add_(parameter, alpha=self._decay).norm().item() ** 2
            weights += parameter.norm().item() ** 2
        return lr * math.sqrt(change / weights) if weights else 0.0

    def state(self) -> dict[str, Tensor]:
        """Moments and counts by `name.key`: tensors alone, so that they go into a safetensors file."""
        return {
            f"{name}.{key}": value
            for name, parameter in self._parameters.items()
            for key, value in self._adam.state.get(parameter, {}).items()
        }

    def load(self, state: Mapping[str, Tensor]) -> None:
        """Takes up `state`; KeyError names a parameter without moments if others have them."""
        for name, parameter in self._parameters.items():
            if state:
                self._adam.state[parameter] = {
                    key: state[f"{name}.{key}"].clone() for key in ("step", "exp_avg", "exp_avg_sq")
                }
