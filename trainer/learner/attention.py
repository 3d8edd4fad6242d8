"""Attention over trees of tokens (batches.py): a prompt, and branches that continue it unaware of each other.

The prompt's keys are multiplied once for all branches, and no score between siblings is computed. For short
trees, the usual case on a CPU, plain products in fp32 are several times faster than torch's fused kernel,
whose backward pass is slow for few heads; long ones go through the fused kernel, which keeps no scores.

What is kept for the backward pass is bounded by the tokens, whatever the shape of a tree: the rehearsal (rehearsal.py)
relies on it. Branches are padded to each other only as far as that keeps no more than branches of SHORT tokens do, and
of a prompt that many short branches share no copies are kept.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import lru_cache, partial
from typing import Any

import torch
from torch import Tensor
from torch.nn import functional as F
from torch.nn.utils.rnn import pad_sequence
from torch.utils.checkpoint import checkpoint
from transformers.modeling_utils import ALL_ATTENTION_FUNCTIONS

from trainer.learner.batches import Tree

NAME = "trainer_tree"
SHORT = 512  # tokens from a prompt's first to a branch's last, up to which scores are kept for the backward pass


def tree_attention(
    module: torch.nn.Module,
    query: Tensor,
    key: Tensor,
    value: Tensor,
    attention_mask: Tensor | None,
    *,
    trees: Sequence[Tree],
    scaling: float | None = None,
    sliding_window: int | None = None,
    softcap: float | None = None,
    s_aux: Tensor | None = None,
    **_: Any,
) -> tuple[Tensor, None]:
    """The attention function of transformers' interface: query [1, H, N, D], key and value [1, K, N, D] with H a
    multiple of K; returns [1, N, H, D]. `trees` are laid out one after the other along N."""
    if softcap is not None or s_aux is not None:
        raise ValueError(f"{type(module).__name__} uses soft-capped scores or attention sinks: not supported here")
    scale = query.shape[-1] ** -0.5 if scaling is None else scaling
    lengths = [tree.tokens for tree in trees]
    parts = [
        _tree(tree, q, k, v, scale, sliding_window)
        for tree, q, k, v in zip(trees, *(x[0].split(lengths, dim=1) for x in (query, key, value)), strict=True)
    ]
    return torch.cat(parts, dim=1).to(query.dtype).transpose(0, 1).unsqueeze(0), None


ALL_ATTENTION_FUNCTIONS.register(NAME, tree_attention)


def _tree(tree: Tree, q: Tensor, k: Tensor, v: Tensor, scale: float, window: int | None) -> Tensor:
    """[H, N, D] of one tree."""
    longest = max(tree.branches)
    if tree.prompt + longest > SHORT:
        return _fused(tree, q, k, v, scale, window)
    q, k, v = q.float(), k.float(), v.float()
    sizes = [tree.prompt, *tree.branches]
    (qp, *qb), (kp, *kb), (vp, *vb) = (x.split(sizes, dim=1) for x in (q, k, v))
    prompt = _attend(qp, kp, vp, _short_mask(tree.prompt, 0, window, q.device), scale)
    parts, at = [prompt], 0
    for count in padded_together(tree):
        these = slice(at, at + count)
        at += count
        run = Tree(tree.prompt, tree.branches[these])
        parts.append(_branches(run, _pad(qb[these]), _pad(kb[these]), _pad(vb[these]), kp, vp, scale, window))
    return torch.cat(parts, dim=1)


def padded_together(tree: Tree) -> list[int]:
    """How many branches in a row are padded to their longest, part by part. A padded token keeps its scores, and query,
    key, value and output, which weigh about as much as SHORT scores; all of a part, as much as its own tokens would in
    branches of SHORT tokens."""
    parts: list[int] = []
    longest = tokens = 0
    for length in tree.branches:
        longest, tokens = max(longest, length), tokens + length
        if parts and (parts[-1] + 1) * longest * (tree.prompt + longest + SHORT) <= 2 * SHORT * tokens:
            parts[-1] += 1
        else:
            parts.append(1)
            longest = tokens = length
    return parts


def _attend(q: Tensor, k: Tensor, v: Tensor, mask: Tensor, scale: float) -> Tensor:
    """q [H, T, D] over k, v [K, T, D], additive mask [T, T]: the heads of one key are rows of one product."""
    heads, length, size = q.shape
    keys = len(k)
    scores = (q.reshape(keys, -1, size) @ k.transpose(1, 2)).view(heads, length, -1)
    p = torch.softmax(scores.mul_(scale).add_(mask), dim=-1)
    return (p.view(keys, -1, p.shape[-1]) @ v).view(heads, length, size)


def _branches(
    tree: Tree, q: Tensor, k: Tensor, v: Tensor, kp: Tensor, vp: Tensor, scale: float, window: int | None
) -> Tensor:
    """q [C, H, L, D] of C branches padded to L, over the prompt's kp, vp [K, P, D] and own k, v [C, K, L, D]."""
    count, heads, length, size = q.shape
    keys, prompt = len(kp), tree.prompt
    q = q.view(count, keys, -1, size)  # [C, K, rL, D], r = H / K
    across = q.transpose(0, 1).reshape(keys, -1, size)  # [K, C r L, D]
    on_prompt = (across @ kp.transpose(1, 2)).view(keys, count, -1, prompt).transpose(0, 1)
    scores = torch.cat([on_prompt, q @ k.transpose(2, 3)], dim=-1).view(count, heads, length, prompt + length)
    p = torch.softmax(scores.mul_(scale).add_(_short_mask(length, prompt, window, q.device)), dim=-1)
    p = p.view(count, keys, -1, prompt + length)
    before, own = p.split([prompt, length], dim=-1)
    out = (before.transpose(0, 1).reshape(keys, -1, prompt) @ vp).view(keys, count, -1, size).transpose(0, 1)
    out = (out + own @ v).reshape(count, heads, length, size)
    return torch.cat([branch[:, :n] for branch, n in zip(out, tree.branches, strict=True)], dim=1)


def _fused(tree: Tree, q: Tensor, k: Tensor, v: Tensor, scale: float, window: int | None) -> Tensor:
    sizes = [tree.prompt, *tree.branches]
    repeats = len(q) // len(k)
    k, v = k.repeat_interleave(repeats, dim=0), v.repeat_interleave(repeats, dim=0)
    (qp, *qb), (kp, *kb), (vp, *vb) = (x.split(sizes, dim=1) for x in (q, k, v))
    parts = [_sdpa(qp, kp, vp, 0, scale, window)]
    branch: Callable[..., Tensor] = _branch
    if len(tree.branches) * tree.prompt > tree.tokens:  # copies would be most of what is kept: they are made again
        branch = partial(checkpoint, _branch, use_reentrant=False, preserve_rng_state=False)
    parts += [branch(qi, kp, ki, vp, vi, scale, window) for qi, ki, vi in zip(qb, kb, vb, strict=True)]
    return torch.cat(parts, dim=1)


def _branch(q: Tensor, kp: Tensor, k: Tensor, vp: Tensor, v: Tensor, scale: float, window: int | None) -> Tensor:
    """One branch after the prompt's keys and values kp, vp."""
    return _sdpa(q, torch.cat([kp, k], dim=1), torch.cat([vp, v], dim=1), kp.shape[1], scale, window)


def _sdpa(q: Tensor, k: Tensor, v: Tensor, before: int, scale: float, window: int | None) -> Tensor:
    mask = _mask(q.shape[1], before, window, q.device) == 0
    return F.scaled_dot_product_attention(q[None], k[None], v[None], attn_mask=mask, scale=scale)[0]


def _pad(parts: Sequence[Tensor]) -> Tensor:
    """[C, heads, L, D] of C tensors [heads, l, D]."""
    if len({part.shape[1] for part in parts}) == 1:
        return torch.stack(list(parts))
    return pad_sequence([part.transpose(0, 1) for part in parts], batch_first=True).transpose(1, 2).contiguous()


def _mask(length: int, before: int, window: int | None, device: torch.device) -> Tensor:
    """Additive [length, before + length]: causal after `before` visible tokens, `window` tokens back at most."""
    distance = (torch.arange(length, device=device) + before).unsqueeze(-1) - torch.arange(
        before + length, device=device
    )
    hidden = distance < 0 if window is None else (distance < 0) | (distance >= window)
    return torch.zeros(distance.shape, device=device).masked_fill_(hidden, -torch.inf)


_short_mask = lru_cache(maxsize=64)(_mask)
