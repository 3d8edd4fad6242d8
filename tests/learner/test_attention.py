"""Attention over trees: what any shape of them computes, and how much of it is kept."""

from __future__ import annotations

import random

import pytest
import torch
from torch.nn import functional as F

from trainer.learner import attention
from trainer.learner.attention import SHORT, padded_together
from trainer.learner.batches import Tree

TREES = [Tree(3, (40, 2, 2, 3)), Tree(30, (1, 4, 2, 1, 1)), Tree(7, (5, 5, 5)), Tree(1, (20,)), Tree(20, (1,) * 9)]


def inputs(tree: Tree) -> list[torch.Tensor]:
    """Query of four heads, key and value of two."""
    generator = torch.Generator().manual_seed(1)
    return [torch.randn((heads, tree.tokens, 8), generator=generator, requires_grad=True) for heads in (4, 2, 2)]


def alone(tree: Tree, q: torch.Tensor, k: torch.Tensor, v: torch.Tensor, window: int | None) -> torch.Tensor:
    """Each branch as a sequence of its own, by torch's attention."""
    found, at = [], tree.prompt
    for i, length in enumerate(tree.branches):
        places = torch.tensor([*range(tree.prompt), *range(at, at + length)])
        at += length
        one, kk, vv = q[:, places], k[:, places].repeat_interleave(2, 0), v[:, places].repeat_interleave(2, 0)
        distance = torch.arange(len(places))[:, None] - torch.arange(len(places))
        seen = (distance >= 0) & (distance < (window or len(places)))
        out = F.scaled_dot_product_attention(one, kk, vv, attn_mask=seen, scale=0.5)
        found += [out] if i == 0 else [out[:, tree.prompt :]]
    return torch.cat(found, dim=1)


@pytest.mark.parametrize("window", [None, 6])
@pytest.mark.parametrize("short", [SHORT, 0], ids=["short", "long"])
@pytest.mark.parametrize("tree", TREES, ids=str)
def test_any_tree_computes_what_its_branches_do_alone(tree, short, window, monkeypatch) -> None:
    results = []
    for compute in (attention._tree, alone):
        monkeypatch.setattr(attention, "SHORT", short)
        given = inputs(tree)
        out = compute(tree, *given, 0.5, window) if compute is attention._tree else alone(tree, *given, window)
        (out * torch.arange(out.numel()).view_as(out).cos()).sum().backward()
        results.append([out, *(x.grad for x in given)])
    for found, expected in zip(*results, strict=True):
        torch.testing.assert_close(found, expected, rtol=1e-5, atol=1e-6)


def test_no_shape_keeps_more_than_branches_of_short_tokens_do() -> None:
    rng = random.Random(2)
    for _ in range(500):
        prompt = rng.randint(1, SHORT - 1)
        most = rng.randint(1, SHORT - prompt)
        tree = Tree(prompt, tuple(rng.randint(1, most) for _ in range(rng.randint(1, 40))))
        parts, at, kept = padded_together(tree), 0, 0
        for count in parts:
            longest = max(tree.branches[at : at + count])
            kept += count * longest * (prompt + longest + SHORT)
            at += count
        assert at == len(tree.branches) and kept <= 2 * SHORT * sum(tree.branches)


def test_branches_that_are_alike_are_computed_together() -> None:
    assert padded_together(Tree(100, (412,) * 16)) == [16]
    assert padded_together(Tree(10, (50, 40, 45, 30, 50))) == [5]
    assert padded_together(Tree(10, (500, *(10,) * 15))) == [1, 15]


@pytest.mark.parametrize(("tree", "again"), [(Tree(30, (2,) * 6), 6), (Tree(6, (20,) * 3), 0), (Tree(30, (2,)), 0)])
def test_copies_of_a_prompt_that_would_outweigh_the_tree_are_not_kept(tree, again, monkeypatch) -> None:
    monkeypatch.setattr(attention, "SHORT", 0)
    calls, sdpa = [], attention._sdpa
    monkeypatch.setattr(attention, "_sdpa", lambda *given: calls.append(1) or sdpa(*given))
    out = attention._tree(tree, *inputs(tree), 0.5, None)
    assert len(calls) == 1 + len(tree.branches)
    out.sum().backward()
    assert len(calls) == 1 + len(tree.branches) + again
