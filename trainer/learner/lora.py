"""LoRA whose forward pass runs on the merged weights: the very bytes that the engine serves.

After each update W + s B A is computed in fp32, cast once and kept; a layer is then one plain product, and
only its backward pass knows of A and B. That saves the adapter's products and casts in the forward pass,
makes a sync free of a second merge, and leaves no rounding between learner and engine. It costs one more copy
of the adapted weights. Where the base is sharded over several ranks there is no room for that copy: a layer
then merges in each of its passes, and the numbers are the same.
"""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterator
from typing import Any

import torch
from peft import LoraConfig, PeftModel, get_peft_model
from peft.tuners.lora import Linear as LoraLinear
from torch import Tensor, nn
from torch.nn import functional as F

from trainer.learner import parallel
from trainer.learner.flat import FlatWeights

ADAPTER = "default"
_PREFIX = "base_model.model."


class MergedLora:
    """The adapters of a model. `served` holds the merged weights under the names of the stock model."""

    def __init__(self, base: nn.Module, config: LoraConfig, *, keep: bool = True) -> None:
        """ValueError if a target matches nothing or is not a linear layer.

        Args:
            keep: merged weights are kept from one update to the next; else `served` is None.
        """
        self.model: PeftModel = get_peft_model(base, config)
        self._layers: dict[str, LoraLinear] = {}
        for name, module in self.model.named_modules():
            if isinstance(module, LoraLinear) and type(module.get_base_layer()) is nn.Linear:
                self._layers[f"{name.removeprefix(_PREFIX)}.weight"] = module
            elif hasattr(module, "lora_A"):
                kind = type(module.get_base_layer()).__name__
                raise ValueError(f"{name.removeprefix(_PREFIX)} is {kind}: only linear layers can carry an adapter")
        weights = {name: layer.get_base_layer().weight for name, layer in self._layers.items()}
        first = next(iter(weights.values()))
        self.shapes, self.dtype = {n: w.shape for n, w in weights.items()}, first.dtype
        self.served = FlatWeights(self.shapes, first.dtype, first.device) if keep else None
        self.rounding_gap = 0.0
        self._on = True
        for name, layer in self._layers.items():
            # An attribute of the instance, as hooks do it: the module tree and its names stay those of stock
            # peft.
            layer.forward = _MergedForward(self, layer, self.served.tensors[name] if self.served else None)
        self.merge()

    @property
    def is_on(self) -> bool:
        return self._on

    @contextlib.contextmanager
    def switched_off(self) -> Iterator[None]:
        """Within it the model computes with the base weights, as before training; nothing is copied."""
        self._on = False
        try:
            yield
        finally:
            self._on = True

    @torch.no_grad()
    def merge(self) -> None:
        """Brings `served` up to the adapters."""
        if self.served is not None:
            for name, merged in zip(self.shapes, self.merged(), strict=True):
                self.served.tensors[name].copy_(merged)

    @torch.no_grad()
    def merged(self) -> Iterator[Tensor]:
        """The merged weights one by one, in the order of `shapes`, by all ranks. `rounding_gap` becomes
        |cast - exact| / |exact| over all of them.
        """
        error = exact = 0.0
        for layer in self._layers.values():
            wide = _merge(layer, parallel.whole(layer.get_base_layer().weight))
            merged = wide.to(self.dtype)
            exact += wide.norm().item() ** 2
            error += (wide - merged).norm().item() ** 2
            yield merged
        self.rounding_gap = (error / exact) ** 0.5 if exact else 0.0


def _merge(layer: LoraLinear, weight: Tensor) -> Tensor:
    """W + s B A in fp32."""
    a, b = layer.lora_A[ADAPTER].weight, layer.lora_B[ADAPTER].weight
    return torch.addmm(weight.float(), b, a, alpha=layer.scaling[ADAPTER])


class _MergedForward:
    def __init__(self, owner: MergedLora, layer: LoraLinear, merged: Tensor | None) -> None:
        self._owner, self._layer, self._base = owner, layer, layer.get_base_layer()
        self._merged, self._scale = merged, layer.scaling[ADAPTER]
        self._a, self._b = layer.lora_A[ADAPTER].weight, layer.lora_B[ADAPTER].weight

    def __call__(self, x: Tensor) -> Tensor:
        # Weight and bias of the base are looked up in each pass: a sharded layer has other ones within it.
        if not self._owner.is_on:
            return F.linear(x, self._base.weight, self._base.bias)
        return _MergedLinear.apply(x, self._weight, self._base.bias, self._a, self._b, self._scale)

    @torch.no_grad()
    def _weight(self) -> Tensor:
        if self._merged is not None:
            return self._merged
        return _merge(self._layer, self._base.weight).to(self._base.weight.dtype)


class _MergedLinear(torch.autograd.Function):
    """y = x M^T + bias, M = W + s B A: dA = (s g B)^T x and dB = s g^T (x A^T) are the exact gradients."""

    @staticmethod
    def forward(
        ctx: Any, x: Tensor, merged: Callable[[], Tensor], bias: Tensor | None, a: Tensor, b: Tensor, scale: float
    ) -> Tensor:
        ctx.save_for_backward(x, a, b)
        ctx.merged, ctx.scale = merged, scale  # rewritten only between steps, so it needs no version check
        return F.linear(x, merged(), bias)

    @staticmethod
    def backward(ctx: Any, grad: Tensor) -> tuple[Tensor | None, ...]:
        x, a, b = ctx.saved_tensors
        to_x = grad @ ctx.merged() if ctx.needs_input_grad[0] else None
        grad, x = grad.flatten(0, -2), x.flatten(0, -2)
        a, b = a.to(x.dtype), b.to(x.dtype)
        to_a = ((grad @ b).t() @ x).float().mul_(ctx.scale)
        to_b = (grad.t() @ (x @ a.t())).float().mul_(ctx.scale)
        return to_x, None, None, to_a, to_b, None
