"""One token a row from logits, by inverse CDF: the draw of a request depends on its seed and its token's index alone,
never on what else is in the batch."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import torch
from torch import Tensor

_MASK = (1 << 64) - 1


def uniform(seed: int, index: int) -> float:
    """The index-th draw of a seed, in [0, 1): SplitMix64 (Steele et al., 2014), which needs no state."""
    z = (seed + (index + 1) * 0x9E3779B97F4A7C15) & _MASK
    z = ((z ^ (z >> 30)) * 0xBF58476D1CE4E5B9) & _MASK
    z = ((z ^ (z >> 27)) * 0x94D049BB133111EB) & _MASK
    return ((z ^ (z >> 31)) >> 11) * 2.0**-53


@dataclass(slots=True)
class Draw:
    """What one row asks for. `seen` (prompt and completion so far) is read for the repetition penalty only."""

    temperature: float  # 0 is greedy
    uniform: float
    top_p: float = 1.0
    top_k: int = -1
    repetition_penalty: float = 1.0
    seen: Sequence[int] = ()

    @property
    def filtered(self) -> bool:
        return self.top_p < 1 or self.top_k > 0 or self.repetition_penalty != 1


def sample(logits: Tensor, draws: Sequence[Draw]) -> tuple[list[int], list[float]]:
    """Tokens and their log-probabilities, of softmax(logits / temperature) over the full vocabulary (a greedy row's
    at temperature 1). `logits` float32 [B, V] is overwritten. Filters change what is drawn, not what is reported."""
    scale = torch.tensor([1 / d.temperature if d.temperature > 0 else 1.0 for d in draws])
    scaled = logits.mul_(scale.unsqueeze(1)) if any(d.temperature not in (0, 1) for d in draws) else logits
    top = scaled.amax(-1, keepdim=True)
    mass = (scaled - top).exp_()
    tokens, total = _inverse_cdf(mass, torch.tensor([d.uniform for d in draws], dtype=torch.float64))
    greedy = [i for i, d in enumerate(draws) if d.temperature == 0 and not d.filtered]
    if greedy:
        tokens[greedy] = scaled[greedy].argmax(-1)
    for i, draw in enumerate(draws):
        if draw.filtered:
            tokens[i] = _sample_filtered(scaled[i], draw)
    chosen = scaled.gather(1, tokens.unsqueeze(1)) - top
    logps = (chosen.squeeze(1).double() - total.log()).clamp_(max=0)
    return tokens.tolist(), logps.tolist()


def likeliest(logits: Tensor, counts: Sequence[int]) -> dict[int, dict[int, float]]:
    """By row that asks for some: its `count` likeliest tokens and their log-probabilities at temperature 1. `logits`
    [B, V] stay as they are."""
    found = {}
    for row, count in enumerate(counts):
        if count:
            top = logits[row].log_softmax(-1).topk(min(count, logits.shape[1]))
            found[row] = dict(zip(top.indices.tolist(), top.values.tolist(), strict=True))
    return found


def _inverse_cdf(mass: Tensor, uniforms: Tensor) -> tuple[Tensor, Tensor]:
    """Indices [B] and row sums [B] (float64) of unnormalised masses [B, V]. Two levels, since a running sum over a
    whole vocabulary costs more than the softmax: first the block, then the place in it."""
    rows, vocabulary = mass.shape
    block = next((b for b in (256, 128, 64, 32) if vocabulary % b == 0), 256)
    if vocabulary % block:
        mass = torch.nn.functional.pad(mass, (0, block - vocabulary % block))
    blocks = mass.view(rows, -1, block)
    outer = blocks.sum(-1).double().cumsum(-1)
    total = outer[:, -1]
    target = (uniforms * total).unsqueeze(1)
    which = torch.searchsorted(outer, target, right=True).clamp_(max=outer.shape[1] - 1)
    below = torch.where(which > 0, outer.gather(1, (which - 1).clamp_(min=0)), 0.0)
    inner = blocks[torch.arange(rows), which[:, 0]].double().cumsum(-1)
    # both sums are rounded; the share of the block, not the difference, stays inside it
    share = (target - below) / (outer.gather(1, which) - below)
    place = torch.searchsorted(inner, share * inner[:, -1:], right=True).clamp_(max=block - 1)
    return (which * block + place)[:, 0].clamp_(max=vocabulary - 1), total


def _sample_filtered(scaled: Tensor, draw: Draw) -> Tensor:
    """The order of Hugging Face generate: penalty, (temperature,) top-k, top-p. The penalty acts on plain logits."""
    logits = scaled.clone()
    if draw.repetition_penalty != 1 and draw.seen:
        temperature = draw.temperature or 1.0
        seen = torch.tensor(sorted(set(draw.seen)))
        plain = logits[seen] * temperature
        penalty = draw.repetition_penalty
        logits[seen] = torch.where(plain < 0, plain * penalty, plain / penalty) / temperature
    if draw.temperature == 0:
        return logits.argmax()
    ordered, order = logits.sort(descending=True)
    if 0 < draw.top_k < len(ordered):
        ordered[draw.top_k :] = float("-inf")
    if draw.top_p < 1:
        probabilities = ordered.softmax(-1)
        ordered[probabilities.cumsum(-1) - probabilities >= draw.top_p] = float("-inf")
    index, _ = _inverse_cdf((ordered - ordered[0]).exp().unsqueeze(0), torch.tensor([draw.uniform]).double())
    return order[index[0]]
