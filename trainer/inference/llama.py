"""The Llama family (Llama, Mistral, Qwen2, Qwen3) without module overhead: fused and packed projections, tokens of
all sequences packed in one matrix, the three query heads of a key head as three query rows of one attention call.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor

from trainer.inference.forward import Prefill
from trainer.inference.linear import Linear, make_linear
from trainer.inference.weightfiles import Read, WeightFiles, check_update, overlay

Json = dict[str, Any]


def is_llama_like(config: Json) -> bool:
    """Whether this forward pass computes exactly what the config describes."""
    sliding = config.get("sliding_window") if config.get("use_sliding_window", True) else None
    return (
        config.get("model_type") in ("llama", "mistral", "qwen2", "qwen3")
        and config.get("hidden_act") == "silu"
        and not sliding
        and not config.get("quantization_config")
        and _rope(config).get("rope_type", "default") in ("default", "linear", "llama3")
    )


def _rope(config: Json) -> Json:
    """Rope parameters of both config generations (transformers 5, and before)."""
    rope = dict(config.get("rope_parameters") or config.get("rope_scaling") or {})
    rope.setdefault("rope_theta", config.get("rope_theta") or 10000.0)
    rope.setdefault("rope_type", rope.get("type", "default"))
    return rope


def inverse_frequencies(rope: Json, head_dim: int) -> Tensor:
    """float32 [head_dim / 2]; types default, linear and llama3 (Llama 3.1, as transformers computes it)."""
    inv = 1.0 / rope["rope_theta"] ** (torch.arange(0, head_dim, 2, dtype=torch.int64).float() / head_dim)
    if rope["rope_type"] == "linear":
        return inv / rope["factor"]
    if rope["rope_type"] == "llama3":
        low, high = rope["low_freq_factor"], rope["high_freq_factor"]
        turns = rope["original_max_position_embeddings"] * inv / (2 * math.pi)
        smooth = ((turns - low) / (high - low)).clamp(0, 1)
        return (1 - smooth) * inv / rope["factor"] + smooth * inv
    return inv


@dataclass(frozen=True, slots=True)
class _Shape:
    layers: int
    hidden: int
    heads: int
    kv_heads: int
    head_dim: int
    eps: float


@dataclass(frozen=True, slots=True)
class _Layer:
    attention_norm: Tensor
    qkv: Linear
    q_norm: Tensor | None
    k_norm: Tensor | None
    out: Linear
    mlp_norm: Tensor
    gate: Linear
    up: Linear
    down: Linear


@dataclass(frozen=True, slots=True)
class _Weights:
    embed: Tensor
    layers: tuple[_Layer, ...]
    norm: Tensor
    head: Linear


class LlamaForward:
    """See `Forward`. The cache's width is keys then values, each [kv_heads, head_dim]."""

    def __init__(
        self,
        shape: _Shape,
        weights: _Weights,
        base: WeightFiles,
        changed: frozenset[str],
        rotation: tuple[Tensor, Tensor],
    ) -> None:
        self._shape, self._weights, self._base, self._changed = shape, weights, base, changed
        self._cos, self._sin = rotation
        self.layers = shape.layers
        self.width = 2 * shape.kv_heads * shape.head_dim
        self.dtype = weights.embed.dtype

    @classmethod
    def load(cls, config: Json, base: WeightFiles, dtype: torch.dtype, max_len: int) -> LlamaForward:
        heads = config["num_attention_heads"]
        shape = _Shape(
            layers=config["num_hidden_layers"],
            hidden=config["hidden_size"],
            heads=heads,
            kv_heads=config.get("num_key_value_heads") or heads,
            head_dim=config.get("head_dim") or config["hidden_size"] // heads,
            eps=config["rms_norm_eps"],
        )
        angles = torch.outer(torch.arange(max_len).float(), inverse_frequencies(_rope(config), shape.head_dim))
        cos, sin = angles.cos(), angles.sin()
        # [max_len, 1 head, 2 halves, head_dim / 2]: rotating a pair of halves is x * cos + x.flip * sin
        rotation = (
            torch.stack([cos, cos], 1).unsqueeze(1).to(dtype),
            torch.stack([-sin, sin], 1).unsqueeze(1).to(dtype),
        )
        weights = _build(shape, overlay(base, None, dtype), set(), None)
        return cls(shape, weights, base, frozenset(), rotation)

    def updated(self, update: WeightFiles) -> LlamaForward:
        check_update(self._base, update)
        changed = frozenset(update.names)
        weights = _build(
            self._shape, overlay(self._base, update, self.dtype), set(changed | self._changed), self._weights
        )
        return LlamaForward(self._shape, weights, self._base, changed, (self._cos, self._sin))

    def logits(self, hidden: Tensor) -> Tensor:
        return self._weights.head(hidden).float()

    def prefill(self, batch: list[Prefill], kv: Tensor) -> Tensor:
        s, capacity = self._shape, kv.shape[2]
        ids = torch.tensor([i for p in batch for i in p.ids])
        positions = torch.cat([torch.arange(p.past, p.past + len(p.ids)) for p in batch])
        places = torch.cat([torch.arange(p.past, p.past + len(p.ids)) + p.row * capacity for p in batch])
        ends = torch.tensor([len(p.ids) for p in batch]).cumsum(0)
        masks = [_suffix_mask(len(p.ids), p.past, self.dtype) if p.past else None for p in batch]

        def attend(q: Tensor, layer_kv: Tensor) -> Tensor:
            out, start = torch.empty_like(q), 0
            for p, mask in zip(batch, masks, strict=True):
                end = start + len(p.ids)
                keys, values = self._keys_values(layer_kv[p.row : p.row + 1, : p.past + len(p.ids)])
                query = q[start:end].transpose(0, 1).unsqueeze(0)
                part = F.scaled_dot_product_attention(
                    query, keys, values, attn_mask=mask, is_causal=mask is None, enable_gqa=True
                )
                out[start:end] = part[0].transpose(0, 1)
                start = end
            return out

        hidden = self._run(ids, positions, places, kv, attend)[ends - 1]
        return F.rms_norm(hidden, (s.hidden,), self._weights.norm, s.eps)

    def decode(self, tokens: Tensor, lengths: Tensor, longest: int, kv: Tensor) -> Tensor:
        s, rows, capacity = self._shape, len(tokens), kv.shape[2]
        places = torch.arange(rows) * capacity + lengths
        mask = torch.zeros(rows, longest, dtype=self.dtype)
        mask.masked_fill_(torch.arange(longest) > lengths.unsqueeze(1), float("-inf"))
        mask = mask.view(rows, 1, 1, longest)
        grouped = (rows, s.kv_heads, s.heads // s.kv_heads, s.head_dim)

        def attend(q: Tensor, layer_kv: Tensor) -> Tensor:
            keys, values = self._keys_values(layer_kv[:rows, :longest])
            return F.scaled_dot_product_attention(q.view(grouped), keys, values, attn_mask=mask)

        hidden = self._run(tokens, lengths, places, kv, attend)
        return F.rms_norm(hidden, (s.hidden,), self._weights.norm, s.eps)

    def _keys_values(self, cache: Tensor) -> tuple[Tensor, Tensor]:
        """[rows, length, width] -> two views [rows, kv_heads, length, head_dim]."""
        s = self._shape
        both = cache.view(cache.shape[0], cache.shape[1], 2 * s.kv_heads, s.head_dim).transpose(1, 2)
        return both[:, : s.kv_heads], both[:, s.kv_heads :]

    def _run(self, ids: Tensor, positions: Tensor, places: Tensor, kv: Tensor, attend: Any) -> Tensor:
        """Embeds `ids` [N], writes keys and values to `places` of every layer's cache, returns [N, hidden]."""
        s = self._shape
        n, norm_shape = len(ids), (s.hidden,)
        rotated = s.heads + s.kv_heads
        cos, sin = self._cos[positions], self._sin[positions]
        x = F.embedding(ids, self._weights.embed)
        for layer, layer_kv in zip(self._weights.layers, kv.unbind(0), strict=True):
            qkv = layer.qkv(F.rms_norm(x, norm_shape, layer.attention_norm, s.eps)).view(n, -1, s.head_dim)
            if layer.q_norm is not None:
                qkv[:, : s.heads] = F.rms_norm(qkv[:, : s.heads], (s.head_dim,), layer.q_norm, s.eps)
                qkv[:, s.heads : rotated] = F.rms_norm(qkv[:, s.heads : rotated], (s.head_dim,), layer.k_norm, s.eps)
            halves = qkv[:, :rotated].view(n, rotated, 2, s.head_dim // 2)
            turned = torch.addcmul(halves * cos, halves.flip(2), sin).view(n, rotated, s.head_dim)
            qkv[:, s.heads : rotated] = turned[:, s.heads :]
            layer_kv.view(-1, self.width).index_copy_(0, places, qkv[:, s.heads :].reshape(n, self.width))
            attended = attend(turned[:, : s.heads].contiguous(), layer_kv)
            x = layer.out.plus(attended.reshape(n, s.heads * s.head_dim), x)
            y = F.rms_norm(x, norm_shape, layer.mlp_norm, s.eps)
            x = layer.down.plus(layer.up.times(y, layer.gate.silu(y)), x)
        return x


def _suffix_mask(new: int, past: int, dtype: torch.dtype) -> Tensor:
    """Additive [new, past + new]: token i of the suffix sees the past and the suffix up to itself."""
    allowed = torch.ones(new, past + new, dtype=torch.bool).tril(past)
    return torch.zeros(new, past + new, dtype=dtype).masked_fill_(~allowed, float("-inf"))


def _build(shape: _Shape, read: Read, changed: set[str], old: _Weights | None) -> _Weights:
    """All weights, or those in `changed` anew and the rest taken over from `old`."""

    def need(name: str) -> Tensor:
        tensor = read(name)
        if tensor is None:
            raise ValueError(f"the model has no tensor {name}")
        return tensor

    def linear(*names: str) -> Linear:
        weights = [need(f"{name}.weight") for name in names]
        biases = [b for name in names if (b := read(f"{name}.bias")) is not None]
        return make_linear(
            torch.cat(weights) if len(weights) > 1 else weights[0], torch.cat(biases) if biases else None
        )

    def layer(prefix: str) -> _Layer:
        attention, mlp = f"{prefix}self_attn.", f"{prefix}mlp."
        return _Layer(
            attention_norm=need(f"{prefix}input_layernorm.weight"),
            qkv=linear(f"{attention}q_proj", f"{attention}k_proj", f"{attention}v_proj"),
            q_norm=read(f"{attention}q_norm.weight"),
            k_norm=read(f"{attention}k_norm.weight"),
            out=linear(f"{attention}o_proj"),
            mlp_norm=need(f"{prefix}post_attention_layernorm.weight"),
            gate=linear(f"{mlp}gate_proj"),
            up=linear(f"{mlp}up_proj"),
            down=linear(f"{mlp}down_proj"),
        )

    prefixes = [f"model.layers.{i}." for i in range(shape.layers)]
    touched = {
        name[: name.index(".", len("model.layers.")) + 1] for name in changed if name.startswith("model.layers.")
    }
    layers = tuple(
        layer(prefix) if old is None or prefix in touched else old.layers[i] for i, prefix in enumerate(prefixes)
    )
    if old is not None and not changed - {n for n in changed if n.startswith("model.layers.")}:
        return replace(old, layers=layers)
    embed = need("model.embed_tokens.weight")
    head = read("lm_head.weight")
    return _Weights(embed, layers, need("model.norm.weight"), make_linear(embed if head is None else head))
