"""QLoRA: fp32 adapters on a frozen base of 4-bit NormalFloats, and that base written out for an engine.

NF4 with double quantisation (Dettmers et al., arXiv 2305.14314, section 3), through bitsandbytes. Each product is with
the dequantised weights in the run's dtype, in both passes, so what `write_dequantised` writes is what the learner
computes with. The embedding, the output projection, norms and biases keep the run's dtype.

python -m trainer.learner.qlora MODEL FOLDER DTYPE: writes the dequantised model into FOLDER.
"""

from __future__ import annotations

import argparse
import contextlib
import shutil
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import bitsandbytes as bnb
import torch
from bitsandbytes.functional import QuantState, dequantize_4bit
from peft import LoraConfig, PeftModel, get_peft_model
from torch import Tensor, nn
from torch.nn import functional as F

from trainer.models import load_model

KIND = "nf4"
_WEIGHTS = (".safetensors", ".bin", ".gguf", ".pt", ".pth", ".safetensors.index.json", ".bin.index.json")


class FourBitLora:
    """The adapters of a model whose linear layers are replaced by 4-bit ones. Nothing is ever merged: the engine serves
    the same base, and the adapter beside it."""

    served = None
    rounding_gap = 0.0  # of a sync: the adapter goes as it is

    def __init__(self, base: nn.Module, config: LoraConfig) -> None:
        """`base` is changed in place. ValueError if a target matches nothing."""
        quantise(base)
        self.model: PeftModel = get_peft_model(base, config)

    @contextlib.contextmanager
    def switched_off(self) -> Iterator[None]:
        """Within it the model computes with the base weights, as before training."""
        with self.model.disable_adapter():
            yield

    def merge(self) -> None:
        """There is nothing to bring up to the adapters."""


class FourBitLinear(bnb.nn.Linear4bit):
    """y = x dequantised(W)^T + b. The layer of bitsandbytes repacks its weights for some CPUs once it is evaluated,
    and picks kernels by the shape of x; this one computes the same thing in every call."""

    def forward(self, x: Tensor) -> Tensor:
        return _Product.apply(x, self.weight.data, self.weight.quant_state, self.bias)


class _Product(torch.autograd.Function):
    """W is dequantised in each pass and given up after it. It has no gradient."""

    @staticmethod
    def forward(ctx: Any, x: Tensor, packed: Tensor, state: QuantState, bias: Tensor | None) -> Tensor:
        ctx.packed, ctx.state = packed, state
        return F.linear(x, dequantize_4bit(packed, state), bias)

    @staticmethod
    def backward(ctx: Any, grad: Tensor) -> tuple[Tensor | None, ...]:
        return grad @ dequantize_4bit(ctx.packed, ctx.state), None, None, None


@torch.no_grad()
def quantise(model: nn.Module) -> None:
    """Replaces the linear layers of `model`, all but the output projection, by 4-bit ones on the same device."""
    for parent, name, linear in _linears(model):
        layer = FourBitLinear(
            linear.in_features,
            linear.out_features,
            bias=linear.bias is not None,
            compute_dtype=linear.weight.dtype,
            compress_statistics=True,  # the double quantisation
            quant_type=KIND,
            device="meta",
        )
        weight = bnb.nn.Params4bit(
            linear.weight.data, requires_grad=False, compress_statistics=True, quant_type=KIND, module=layer
        )
        layer.weight, layer.bias = weight.to(linear.weight.device), linear.bias  # moving it quantises it
        setattr(parent, name, layer)
    model.requires_grad_(False)
    model.is_loaded_in_4bit = True  # by which peft knows them


def dequantised(layer: bnb.nn.Linear4bit) -> Tensor:
    """[out, in] in the dtype that the weights had."""
    return dequantize_4bit(layer.weight.data, layer.weight.quant_state)


@torch.no_grad()
def write_dequantised(model: Path, folder: Path, dtype: str) -> None:
    """The model in the stock layout with the weights of its 4-bit form in `dtype`."""
    device = torch.device("cuda" if torch.cuda.is_available() else "cpu")  # where the learner quantises, too
    loaded = load_model(model, dtype)
    quantise(loaded.to(device))
    for parent, name, layer in _linears(loaded):
        linear = nn.Linear(layer.in_features, layer.out_features, bias=layer.bias is not None, device="meta")
        linear.weight = nn.Parameter(dequantised(layer).to("cpu"), requires_grad=False)
        linear.bias = layer.bias
        setattr(parent, name, linear)
    loaded.is_loaded_in_4bit = False
    loaded.to("cpu").save_pretrained(folder)
    for file in model.iterdir():  # tokenizer, template and the like
        if file.is_file() and not file.name.endswith(_WEIGHTS) and not (folder / file.name).exists():
            shutil.copyfile(file, folder / file.name)


def _linears(model: nn.Module) -> list[tuple[nn.Module, str, nn.Linear]]:
    """(parent, its name there, layer) of what is quantised."""
    head = model.get_output_embeddings()
    return [
        (parent, name, child)
        for parent in model.modules()
        for name, child in parent.named_children()
        if isinstance(child, nn.Linear) and child is not head
    ]


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m trainer.learner.qlora")
    parser.add_argument("model", type=Path)
    parser.add_argument("folder", type=Path)
    parser.add_argument("dtype")
    args = parser.parse_args()
    try:
        write_dequantised(args.model, args.folder, args.dtype)
    except (OSError, RuntimeError, ValueError) as error:
        print(f"error: {error}", file=sys.stderr)
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main())
