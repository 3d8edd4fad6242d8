"""What the decoder asks of a model: prefill and decode over a key-value cache that the decoder owns."""

from __future__ import annotations

import json
from dataclasses import dataclass
from pathlib import Path
from typing import Protocol

import torch
from torch import Tensor

from trainer.inference.weightfiles import WeightFiles


@dataclass(slots=True)
class Prefill:
    """Tokens [past, past + len(ids)) of the sequence in a cache row."""

    ids: list[int]
    row: int
    past: int


class Forward(Protocol):
    """One version of the weights. The cache is `kv` [layers, rows, capacity, width]; width = keys and values of a
    token in one layer."""

    layers: int
    width: int
    dtype: torch.dtype

    def prefill(self, batch: list[Prefill], kv: Tensor) -> Tensor:
        """Writes the cache; hidden states of the last tokens [len(batch), hidden]."""
        ...

    def decode(self, tokens: Tensor, lengths: Tensor, longest: int, kv: Tensor) -> Tensor:
        """One token for each of the first B rows. tokens, lengths (tokens already cached) int64 [B]; longest =
        positions to attend over, > max(lengths). Hidden states [B, hidden]."""
        ...

    def logits(self, hidden: Tensor) -> Tensor:
        """float32 [rows, vocabulary]."""
        ...

    def updated(self, update: WeightFiles) -> Forward:
        """The start weights with `update` laid over them, as a new object; this one stays as it is."""
        ...


def load_forward(path: Path, dtype: torch.dtype, max_len: int) -> Forward:
    """The lean forward pass for the Llama family, that of transformers for every other decoder."""
    from trainer.inference.llama import LlamaForward, is_llama_like

    config = json.loads((path / "config.json").read_text())
    if is_llama_like(config):
        return LlamaForward.load(config, WeightFiles(path), dtype, max_len)
    from trainer.inference.hf_forward import HFForward

    return HFForward.load(path, dtype)
