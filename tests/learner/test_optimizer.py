from __future__ import annotations

import math

import pytest
import torch

from trainer.learner.optimizer import Optimizer, schedule


def test_schedules() -> None:
    assert [schedule("constant", s, 0, 4) for s in (1, 4, 9)] == [1, 1, 1]
    assert [schedule("linear", s, 0, 4) for s in (1, 2, 3, 4, 5, 9)] == [1, 0.75, 0.5, 0.25, 0, 0]
    assert [schedule("linear", s, 2, 4) for s in (1, 2, 3, 4)] == [0.5, 1, 1, 0.5]
    assert schedule("cosine", 3, 0, 4) == pytest.approx(0.5)
    with pytest.raises(ValueError, match="lr_schedule"):
        schedule("step", 1, 0, 4)


def test_equals_torch_adamw_with_clipping() -> None:
    torch.manual_seed(0)
    ours, theirs = ({"a": torch.ones(5, 3), "b": torch.full((7,), 2.0)} for _ in range(2))
    optimizer = Optimizer(ours, weight_decay=0.1, max_grad_norm=1.0)
    reference = torch.optim.AdamW(theirs.values(), lr=0.01, weight_decay=0.1)
    for k in range(4):
        before = torch.cat([t.flatten() for t in ours.values()])
        for mine, his in zip(ours.values(), theirs.values(), strict=True):
            mine.grad = torch.randn_like(mine) * (0.01 if k == 2 else 1)
            his.grad = mine.grad.clone()
        norm = torch.nn.utils.clip_grad_norm_(theirs.values(), 1.0).item()
        reference.step()
        stats = optimizer.step(0.01)
        assert stats.grad_norm == pytest.approx(norm, rel=1e-5) and stats.clipped is (norm > 1)
        for mine, his in zip(ours.values(), theirs.values(), strict=True):
            torch.testing.assert_close(mine, his)
            assert mine.grad is None
        after = torch.cat([t.flatten() for t in ours.values()])
        assert stats.update_ratio == pytest.approx(((after - before).norm() / before.norm()).item(), rel=0.02)


def test_state_goes_on_exactly() -> None:
    def run(steps: range, weights: torch.Tensor, state=None):
        optimizer = Optimizer({"w": weights}, weight_decay=0.0, max_grad_norm=math.inf)
        if state is not None:
            optimizer.load(state)
        for k in steps:
            weights.grad = torch.sin(weights + k)
            optimizer.step(0.1)
        return weights, optimizer.state()

    whole, _ = run(range(6), torch.ones(4))
    half, state = run(range(3), torch.ones(4))
    resumed, _ = run(range(3, 6), half.clone(), {k: v.clone() for k, v in state.items()})
    assert resumed.equal(whole)
