"""AdamW on fp32 weights, the learning-rate schedules, and the figures of an update."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping
from dataclasses import dataclass

import torch
from torch import Tensor
from torch.distributed.tensor import DTensor

from trainer.learner import parallel

BETAS = (0.9, 0.999)
EPSILON = 1e-8


@dataclass(frozen=True, slots=True)
class UpdateStats:
    """Figures of one optimizer step."""

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
    """`parameters` are fp32 leaves by name; their `grad` is consumed by `step`.

    Of a sharded one each rank steps its own part. All ranks call each method together, and get the same figures.
    """

    def __init__(self, parameters: Mapping[str, Tensor], *, weight_decay: float, max_grad_norm: float) -> None:
        self._parameters = dict(parameters)
        self._decay, self._max_norm = weight_decay, max_grad_norm
        self._parts = {name: parallel.local(p) for name, p in self._parameters.items()}
        self._sharded = {name for name, p in self._parameters.items() if isinstance(p, DTensor)}
        self._adam = torch.optim.AdamW(
            list(self._parts.values()), betas=BETAS, eps=EPSILON, weight_decay=weight_decay, fused=True
        )

    def grad_norm(self) -> float:
        """Of all gradients so far; not finite if one of them is not."""
        found = self._gradients()
        own = _norm(gradient for name, gradient in found.items() if name not in self._sharded)
        if not self._sharded:
            return own
        return math.sqrt(own**2 + parallel.total(_norm(found[name] for name in self._sharded & found.keys()) ** 2))

    def _gradients(self) -> dict[str, Tensor]:
        return {name: parallel.local(p.grad) for name, p in self._parameters.items() if p.grad is not None}

    def discard(self) -> None:
        for tensor in (*self._parameters.values(), *self._parts.values()):
            tensor.grad = None

    def moments_to_come(self) -> list[Tensor]:
        """Memory of the size that the first step will take for good; empty where a resume brought the moments."""
        missing = [part for part in self._parts.values() if part not in self._adam.state]
        return [torch.empty_like(part) for part in missing for _ in range(2)]

    def step(self, lr: float) -> UpdateStats:
        """One update from gradients that are finite; the caller has checked `grad_norm`."""
        norm = self.grad_norm()
        clipped = norm > self._max_norm
        gradients = self._gradients()
        if clipped:
            torch._foreach_mul_(list(gradients.values()), self._max_norm / norm)
        for name, gradient in gradients.items():
            self._parts[name].grad = gradient
        for group in self._adam.param_groups:
            group["lr"] = lr
        self._adam.step()
        self.discard()
        return UpdateStats(lr, norm, clipped, self._update_ratio(lr))

    @torch.no_grad()
    def _update_ratio(self, lr: float) -> float:
        """From Adam's moments instead of a copy of the weights from before, which `full` has no room for."""
        change, weights = self._squares(name for name in self._parts if name not in self._sharded)
        if self._sharded:
            own = self._squares(self._sharded)
            change, weights = change + parallel.total(own[0]), weights + parallel.total(own[1])
        return lr * math.sqrt(change / weights) if weights else 0.0

    def _squares(self, names: Iterable[str]) -> tuple[float, float]:
        """|change|^2 at a rate of 1, and |weights|^2, of those that have been stepped."""
        change = weights = 0.0
        for parameter in (self._parts[name] for name in names):
            if not (state := self._adam.state.get(parameter)):
                continue
            t = float(state["step"])
            first = state["exp_avg"] / (1.0 - BETAS[0] ** t)
            second = (state["exp_avg_sq"] / (1.0 - BETAS[1] ** t)).sqrt_().add_(EPSILON)
            change += first.div_(second).add_(parameter, alpha=self._decay).norm().item() ** 2
            weights += parameter.norm().item() ** 2
        return change, weights

    def state(self) -> dict[str, Tensor]:
        """Moments and counts by `name.key`: tensors alone, so that they go into a safetensors file. They are sharded as
        their parameters are."""
        return {
            f"{name}.{key}": value if key == "step" else parallel.as_shard(value, self._parameters[name])
            for name, part in self._parts.items()
            for key, value in self._adam.state.get(part, {}).items()
        }

    def load(self, state: Mapping[str, Tensor]) -> None:
        """Takes up a `state` of whole tensors; KeyError names a parameter without moments if others have them."""
        for name, parameter in self._parameters.items() if state else ():
            part = self._parts[name]
            own = {"step": state[f"{name}.step"]} | {
                key: parallel.part_of(state[f"{name}.{key}"], parameter) for key in ("exp_avg", "exp_avg_sq")
            }
            self._adam.state[part] = {key: value.to(part.device, copy=True) for key, value in own.items()}


def _norm(gradients: Iterable[Tensor]) -> float:
    found = list(gradients)
    return torch.nn.utils.get_total_norm(found).item() if found else 0.0
