"""Any decoder of transformers over our cache. Slower than `llama.py`; the way in for every other architecture."""

from __future__ import annotations

from pathlib import Path

import torch
from torch import Tensor, nn
from torch.func import functional_call
from transformers import Cache
from transformers.cache_utils import CacheLayerMixin

from trainer.inference.forward import Prefill
from trainer.inference.weightfiles import WeightFiles, check_update
from trainer.models import load_model


class _CacheLayer(CacheLayerMixin):
    """One layer of our cache, seen by one forward pass: rows [first, first + B), tokens written at `positions`."""

    is_sliding = False

    def __init__(self, kv: Tensor, first: int, positions: Tensor, length: int) -> None:
        super().__init__()
        self.is_initialized = True
        self._kv, self._positions, self._length = (
            kv[first : first + len(positions), :length],
            positions,
            length,
        )

    def lazy_initialization(self, key_states: Tensor, value_states: Tensor) -> None: ...

    def update(
        self, key_states: Tensor, value_states: Tensor, *args: object, **kwargs: object
    ) -> tuple[Tensor, Tensor]:
        rows, heads, _, dim = key_states.shape
        cache = self._kv.view(rows, self._length, 2 * heads, dim)
        at = torch.arange(rows).unsqueeze(1)
        cache[at, self._positions] = torch.cat([key_states, value_states], 1).transpose(1, 2)
        both = cache.transpose(1, 2)
        return both[:, :heads], both[:, heads:]

    def get_mask_sizes(self, query_length: int) -> tuple[int, int]:
        return self._length, 0

    def get_seq_length(self) -> int:
        return self._length - self._positions.shape[1]

    def get_max_length(self) -> int:
        return self._length


class HFForward:
    """See `Forward`. Here 'hidden states' are the logits already: some models scale or cap them on the way."""

    def __init__(self, model: nn.Module, base: WeightFiles, weights: dict[str, Tensor]) -> None:
        config = model.config.get_text_config()
        kv_heads = getattr(config, "num_key_value_heads", None) or config.num_attention_heads
        head_dim = getattr(config, "head_dim", None) or config.hidden_size // config.num_attention_heads
        self._model, self._base, self._weights = model, base, weights
        self.layers, self.width = config.num_hidden_layers, 2 * kv_heads * head_dim
        self.dtype = model.dtype

    @classmethod
    def load(cls, path: Path, dtype: torch.dtype) -> HFForward:
        return cls(load_model(path, dtype), WeightFiles(path), {})

    def updated(self, update: WeightFiles) -> HFForward:
        check_update(self._base, update)
        return HFForward(self._model, self._base, {n: update.read(n, self.dtype) for n in sorted(update.names)})

    def logits(self, hidden: Tensor) -> Tensor:
        return hidden

    def prefill(self, batch: list[Prefill], kv: Tensor) -> Tensor:
        rows = []
        for p in batch:
            length = p.past + len(p.ids)
            positions = torch.arange(p.past, length).unsqueeze(0)
            rows.append(self._call(torch.tensor([p.ids]), positions, p.row, length, kv))
        return torch.cat(rows)

    def decode(self, tokens: Tensor, lengths: Tensor, longest: int, kv: Tensor) -> Tensor:
        return self._call(tokens.unsqueeze(1), lengths.unsqueeze(1), 0, longest, kv)

    def _call(self, ids: Tensor, positions: Tensor, first: int, length: int, kv: Tensor) -> Tensor:
        visible = torch.arange(length) <= positions.unsqueeze(-1)  # [B, new, length]
        mask = torch.zeros(visible.shape, dtype=self.dtype).masked_fill_(~visible, torch.finfo(self.dtype).min)
        inputs = {
            "input_ids": ids,
            "attention_mask": mask.unsqueeze(1),
            "position_ids": positions,
            "past_key_values": Cache(layers=[_CacheLayer(layer, first, positions, length) for layer in kv]),
            "use_cache": True,
            "logits_to_keep": 1,
        }
        out = functional_call(self._model, self._weights, (), inputs) if self._weights else self._model(**inputs)
        return out.logits[:, -1].float()
