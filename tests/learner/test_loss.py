"""Against TRL's own code, closed-form numpy, and each other."""

from __future__ import annotations

import math
from collections import defaultdict
from dataclasses import replace
from types import SimpleNamespace

import numpy as np
import pytest
import torch
from torch import Tensor

from trainer.learner.loss import LossInput, gspo, gspo_token, sequence_weights

EPS_LOW, EPS_HIGH = 0.1, 0.2


def make(rows: int = 6, width: int = 9, seed: int = 0, spread: float = 0.4) -> LossInput:
    g = torch.Generator().manual_seed(seed)
    lengths = torch.randint(1, width + 1, (rows,), generator=g)
    return LossInput(
        logp=(-3 * torch.rand(rows, width, generator=g, dtype=torch.float64)).requires_grad_(),
        anchor=-3 * torch.rand(rows, width, generator=g, dtype=torch.float64) * spread - 1,
        mask=torch.arange(width) < lengths.unsqueeze(-1),
        advantage=torch.randn(rows, 1, generator=g, dtype=torch.float64).expand(rows, width),
        weight=torch.ones(rows, dtype=torch.float64),
        denominator=float(rows),
        clip_eps_low=EPS_LOW,
        clip_eps_high=EPS_HIGH,
    )


def gradient(loss: Tensor, x: LossInput) -> Tensor:
    return torch.autograd.grad(loss, x.logp)[0]


def test_equals_trl() -> None:
    from trl.trainer.grpo_trainer import GRPOTrainer

    x = make(rows=16, seed=1)
    everything = SimpleNamespace(gather=lambda t: t, reduce=lambda t, reduction: t)
    trainer = SimpleNamespace(
        _get_per_token_logps_and_entropies=lambda *_, **__: (x.logp, torch.zeros_like(x.logp), None),
        aux_loss_enabled=False,
        top_entropy_quantile=1.0,
        off_policy_mask_threshold=None,
        importance_sampling_level="sequence",
        beta=0.0,
        loss_type="grpo",
        epsilon_low=EPS_LOW,
        epsilon_high=EPS_HIGH,
        args=SimpleNamespace(delta=None),
        use_vllm=False,
        model=SimpleNamespace(training=True),
        current_gradient_accumulation_steps=1,
        _entropy_bonus_enabled=False,
        accelerator=everything,
        _metrics=defaultdict(lambda: defaultdict(list)),
    )
    ids = torch.zeros(16, 1, dtype=torch.long)
    inputs = {
        "prompt_ids": ids,
        "prompt_mask": ids + 1,
        "completion_ids": torch.zeros_like(x.mask, dtype=torch.long),
        "completion_mask": x.mask.long(),
        "advantages": x.advantage[:, 0],
        "old_per_token_logps": x.anchor,
    }
    theirs = GRPOTrainer._compute_loss(trainer, None, inputs)
    ours = gspo(x)
    assert ours.loss.item() == pytest.approx(theirs.item(), rel=1e-9)
    torch.testing.assert_close(gradient(ours.loss, x), gradient(theirs, x))
    clipped = trainer._metrics["train"]
    assert ours.clipped_low.double().mean().item() == pytest.approx(clipped["clip_ratio/low_mean"][0])
    assert ours.clipped_high.double().mean().item() == pytest.approx(clipped["clip_ratio/high_mean"][0])
    assert 0 < ours.clipped_low.sum() < 16 and 0 < ours.clipped_high.sum() < 16


@pytest.mark.parametrize("loss", [gspo, gspo_token])
def test_equals_closed_form(loss) -> None:
    x = replace(make(seed=2), weight=torch.tensor([1, 0.5, 0.5, 1, 1, 1 / 3], dtype=torch.float64), denominator=4.2)
    expected, slopes = 0.0, np.zeros(x.mask.shape)
    for i in range(len(x.mask)):
        m = x.mask[i].numpy()
        s = math.exp((x.logp[i].detach() - x.anchor[i]).numpy()[m].mean())
        a, w = x.advantage[i, 0].item(), x.weight[i].item()
        expected -= w * min(s * a, min(max(s, 1 - EPS_LOW), 1 + EPS_HIGH) * a) / 4.2
        if not (s > 1 + EPS_HIGH and a > 0) and not (s < 1 - EPS_LOW and a < 0):
            slopes[i, m] = -w * s * a / m.sum() / 4.2
    out = loss(x)
    assert out.loss.item() == pytest.approx(expected, rel=1e-9)
    np.testing.assert_allclose(gradient(out.loss, x).numpy(), slopes, rtol=1e-9, atol=1e-12)


@pytest.mark.parametrize("seed", range(5))
def test_gspo_token_has_the_gradient_of_gspo(seed: int) -> None:
    x = make(seed=seed)
    one, two = gspo(x), gspo_token(x)
    torch.testing.assert_close(one.loss, two.loss)
    torch.testing.assert_close(gradient(one.loss, x), gradient(two.loss, x))
    assert one.clipped_low.equal(two.clipped_low) and one.clipped_high.equal(two.clipped_high)


def test_gspo_token_gives_each_token_its_own_advantage() -> None:
    x = make(rows=1, width=4)
    x = replace(x, mask=torch.ones(1, 4, dtype=torch.bool), anchor=x.logp.detach())
    x = replace(x, advantage=torch.tensor([[1.0, 1.0, -2.0, 0.0]], dtype=torch.float64))
    grad = gradient(gspo_token(x).loss, x)
    torch.testing.assert_close(grad, -x.advantage / 4)


@pytest.mark.parametrize("loss", [gspo, gspo_token])
@pytest.mark.parametrize("junk", [math.nan, math.inf, -math.inf])
def test_junk_under_the_mask_is_never_seen(loss, junk: float) -> None:
    x = make(seed=3)
    clean = loss(x)
    dirty = replace(
        x,
        logp=torch.where(x.mask, x.logp.detach(), junk).requires_grad_(),
        anchor=torch.where(x.mask, x.anchor, junk),
        advantage=torch.where(x.mask, x.advantage, junk),
    )
    out = loss(dirty)
    torch.testing.assert_close(out.loss, clean.loss)
    torch.testing.assert_close(gradient(out.loss, dirty), gradient(clean.loss, x))


@pytest.mark.parametrize("loss", [gspo, gspo_token])
def test_an_exploding_ratio_is_clamped(loss) -> None:
    x = make(rows=1)
    x = replace(x, anchor=x.logp.detach() - 50, advantage=-torch.ones_like(x.anchor))
    out = loss(x)
    assert out.ratio.item() == pytest.approx(math.exp(10))
    assert out.log_ratio.item() == pytest.approx(50)
    assert not gradient(out.loss, x).any()


@pytest.mark.parametrize("loss", [gspo, gspo_token])
def test_parts_add_up_to_the_whole(loss) -> None:
    x = make(rows=6, seed=4)
    parts = [
        loss(
            replace(
                x,
                logp=x.logp[rows],
                anchor=x.anchor[rows],
                mask=x.mask[rows],
                advantage=x.advantage[rows],
                weight=x.weight[rows],
            )
        ).loss
        for rows in (slice(0, 1), slice(1, 4), slice(4, 6))
    ]
    torch.testing.assert_close(sum(parts), loss(x).loss)


def test_branches_of_a_fork_count_as_one_episode() -> None:
    """Two equal branches of weight 1/2 give the loss of the episode played once."""
    one = make(rows=1)
    two = replace(
        one,
        logp=one.logp.expand(2, -1),
        anchor=one.anchor.expand(2, -1),
        mask=one.mask.expand(2, -1),
        advantage=one.advantage.expand(2, -1),
        weight=torch.full((2,), 0.5, dtype=torch.float64),
    )
    torch.testing.assert_close(gradient(gspo(two).loss, one), gradient(gspo(one).loss, one))


def test_sequence_weights() -> None:
    weight, tokens = torch.tensor([1.0, 0.5]), torch.tensor([10.0, 4.0])
    assert sequence_weights(weight, tokens, "sequence_mean").tolist() == [1.0, 0.5]
    assert sequence_weights(weight, tokens, "length_weighted").tolist() == [10.0, 2.0]
    with pytest.raises(ValueError, match="loss_aggregation"):
        sequence_weights(weight, tokens, "sum")
