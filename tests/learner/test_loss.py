"""Against TRL's own code, a plain loop, closed-form numpy, and each other."""

from __future__ import annotations

import math
from collections import defaultdict
from dataclasses import replace
from types import SimpleNamespace

import numpy as np
import pytest
import torch
from torch import Tensor

from tests.learner.loop import Sampled, loop_loss
from trainer.learner.loss import LOSSES, LossInput, gspo, gspo_token, k3, sequence_weights

EPS_LOW, EPS_HIGH, EPISODE_TOKENS = 0.1, 0.2, 40


def make(rows: int = 6, width: int = 9, seed: int = 0, spread: float = 0.4) -> LossInput:
    g = torch.Generator().manual_seed(seed)
    lengths = torch.randint(1, width + 1, (rows,), generator=g)
    return LossInput(
        logp=(-3 * torch.rand(rows, width, generator=g, dtype=torch.float64)).requires_grad_(),
        anchor=-3 * torch.rand(rows, width, generator=g, dtype=torch.float64) * spread - 1,
        mask=torch.arange(width) < lengths.unsqueeze(-1),
        advantage=torch.randn(rows, 1, generator=g, dtype=torch.float64).expand(rows, width),
        weight=torch.ones(rows, dtype=torch.float64),
        correction=torch.ones(rows, dtype=torch.float64),
        denominator=float(rows),
        clip_eps_low=EPS_LOW,
        clip_eps_high=EPS_HIGH,
        episode_tokens=EPISODE_TOKENS,
        value=torch.randn(rows, width, generator=g, dtype=torch.float64).requires_grad_(),
        returns=torch.randn(rows, width, generator=g, dtype=torch.float64),
        value_coef=0.7,
    )


def gradient(loss: Tensor, x: LossInput) -> Tensor:
    return torch.autograd.grad(loss, x.logp)[0]


@pytest.mark.parametrize("kl_coef", [0.0, 0.2])
@pytest.mark.parametrize("variety", ["gspo", "grpo", "dr_grpo"])
def test_equals_trl(variety: str, kl_coef: float) -> None:
    from trl.trainer.grpo_trainer import GRPOTrainer

    x = make(rows=16, seed=1)
    reference = x.logp.detach() + 0.3 * torch.sin(torch.arange(x.logp.numel())).view(x.logp.shape)
    if kl_coef:
        x = replace(x, reference=reference, kl_coef=kl_coef)
    everything = SimpleNamespace(gather=lambda t: t, reduce=lambda t, reduction: t)
    trainer = SimpleNamespace(
        _get_per_token_logps_and_entropies=lambda *_, **__: (x.logp, torch.zeros_like(x.logp), None),
        aux_loss_enabled=False,
        top_entropy_quantile=1.0,
        off_policy_mask_threshold=None,
        importance_sampling_level="sequence" if variety == "gspo" else "token",
        beta=kl_coef,
        loss_type="dr_grpo" if variety == "dr_grpo" else "grpo",
        max_completion_length=EPISODE_TOKENS,
        epsilon_low=EPS_LOW,
        epsilon_high=EPS_HIGH,
        args=SimpleNamespace(delta=None, use_bias_correction_kl=False),
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
        "ref_per_token_logps": reference,
    }
    theirs = GRPOTrainer._compute_loss(trainer, None, inputs)
    ours = LOSSES[variety](x)
    assert ours.loss.item() == pytest.approx(theirs.item(), rel=1e-9)
    torch.testing.assert_close(gradient(ours.loss, x), gradient(theirs, x))
    clipped = trainer._metrics["train"]
    # theirs are means over tokens where ratios are the token's, ours are shares of a sequence's tokens
    share = torch.ones(16) if variety == "gspo" else x.mask.sum(-1)
    for mine, name in ((ours.clipped_low, "low"), (ours.clipped_high, "high")):
        assert ((mine * share).sum() / share.sum()).item() == pytest.approx(clipped[f"clip_ratio/{name}_mean"][0])
        assert 0 < mine.sum() < 16
    if kl_coef:
        tokens = x.mask.sum(-1)
        assert ((ours.kl * tokens).sum() / tokens.sum()).item() == pytest.approx(clipped["kl"][0])


@pytest.mark.parametrize("kl_coef", [0.0, 0.2])
@pytest.mark.parametrize("anchor", ["behavior", "proximal"])
@pytest.mark.parametrize("variety", LOSSES)
def test_equals_a_plain_loop(variety: str, anchor: str, kl_coef: float) -> None:
    x = make(rows=12, seed=5)
    g = torch.Generator().manual_seed(6)

    def near(scale: float) -> Tensor:
        shared, own = torch.randn(12, 1, generator=g), torch.randn(12, 9, generator=g)
        return x.logp.detach() + scale * (shared + own).double()

    behavior = near(0.2)
    weight = torch.rand(12, generator=g, dtype=torch.float64)
    x = replace(x, anchor=behavior, weight=weight, denominator=weight.sum().item())
    if variety != "gspo":  # per turn
        x = replace(x, advantage=torch.where(torch.arange(9) < 4, x.advantage, -0.7 * x.advantage))
    if anchor == "proximal":
        x = replace(x, anchor=behavior + 2 * (near(0.3) - x.logp.detach()))
        c = (torch.where(x.mask, x.anchor - behavior, 0.0).sum(-1) / x.mask.sum(-1)).exp()
        assert (c > 2.0).any() and (c < 1.0).any()
        x = replace(x, correction=c.clamp(max=2.0))
    if kl_coef:
        x = replace(x, reference=near(0.3), kl_coef=kl_coef)
    sequences = [
        Sampled(
            logp=x.logp[i][m],
            behavior=behavior[i][m].numpy(),
            advantage=x.advantage[i][m].numpy(),
            weight=weight[i].item(),
            proximal=x.anchor[i][m].numpy() if anchor == "proximal" else None,
            reference=None if x.reference is None else x.reference[i][m],
            value=x.value[i][m],
            returns=x.returns[i][m],
        )
        for i, m in enumerate(x.mask)
    ]
    wanted, kl = loop_loss(
        variety, sequences, low=EPS_LOW, high=EPS_HIGH, kl_coef=kl_coef, episode_tokens=EPISODE_TOKENS, value_coef=0.7
    )
    out = LOSSES[variety](x)
    assert out.loss.item() == pytest.approx(wanted.item(), rel=1e-12)
    if variety == "ppo":
        of_critic = (torch.autograd.grad(loss, x.value, retain_graph=True)[0] for loss in (out.loss, wanted))
        torch.testing.assert_close(*of_critic, rtol=1e-12, atol=1e-15)
    torch.testing.assert_close(gradient(out.loss, x), gradient(wanted, x), rtol=1e-12, atol=1e-15)
    if kl_coef:
        assert ((weight * out.kl).sum() / weight.sum()).item() == pytest.approx(kl)


@pytest.mark.parametrize("loss", LOSSES.values(), ids=LOSSES)
def test_importance_weights_are_constants(loss) -> None:
    """No gradient goes through the correction, though it hangs on the log-probabilities here."""
    x = make(seed=7)
    c = (1.5 + x.logp.mean(-1).tanh()).clamp(max=2.0)
    through, constant = loss(replace(x, correction=c)), loss(replace(x, correction=c.detach()))
    torch.testing.assert_close(gradient(through.loss, x), gradient(constant.loss, x))


def test_the_share_of_clipped_tokens() -> None:
    """Of a token-level ratio by the token's own ratio and advantage; of a sequence's all tokens or none."""
    x = make(rows=1, width=4)
    x = replace(x, mask=torch.ones(1, 4, dtype=torch.bool), advantage=torch.tensor([[1.0, 1.0, -1.0, -1.0]]).double())
    x = replace(x, anchor=x.logp.detach() - torch.tensor([[0.5, 0.0, 0.5, -0.5]]))
    grpo, token = LOSSES["grpo"](x), gspo_token(replace(x, anchor=x.logp.detach() - 0.5))
    assert (grpo.clipped_high.item(), grpo.clipped_low.item()) == (0.25, 0.25)
    assert (token.clipped_high.item(), token.clipped_low.item()) == (0.5, 0.0)
    assert grpo.ratio.item() == pytest.approx(math.exp(0.5 / 4))


def test_k3_is_not_negative_and_has_no_gradient_beyond_the_clamp() -> None:
    d = torch.tensor([-30.0, -1.0, 0.0, 1.0, 30.0], dtype=torch.float64, requires_grad=True)
    values = k3(d)
    assert (values >= 0).all() and values[2] == 0
    (slope,) = torch.autograd.grad(values.sum(), d)
    torch.testing.assert_close(slope, torch.tensor([-1.0, math.exp(-1) - 1, 0.0, math.e - 1, 0.0]).double())


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


@pytest.mark.parametrize("loss", LOSSES.values(), ids=LOSSES)
@pytest.mark.parametrize("junk", [math.nan, math.inf, -math.inf])
def test_junk_under_the_mask_is_never_seen(loss, junk: float) -> None:
    x = make(seed=3)
    clean = loss(x)
    dirty = replace(
        x,
        logp=torch.where(x.mask, x.logp.detach(), junk).requires_grad_(),
        anchor=torch.where(x.mask, x.anchor, junk),
        advantage=torch.where(x.mask, x.advantage, junk),
        value=torch.where(x.mask, x.value.detach(), junk),
        returns=torch.where(x.mask, x.returns, junk),
    )
    out = loss(dirty)
    torch.testing.assert_close(out.loss, clean.loss)
    torch.testing.assert_close(gradient(out.loss, dirty), gradient(clean.loss, x))


@pytest.mark.parametrize("loss", LOSSES.values(), ids=LOSSES)
def test_an_exploding_ratio_is_clamped(loss) -> None:
    x = make(rows=1)
    x = replace(x, anchor=x.logp.detach() - 50, advantage=-torch.ones_like(x.anchor))
    out = loss(x)
    assert out.ratio.item() == pytest.approx(math.exp(10))
    assert out.log_ratio.item() == pytest.approx(50)
    assert not gradient(out.loss, x).any()


@pytest.mark.parametrize("loss", LOSSES.values(), ids=LOSSES)
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
                correction=x.correction[rows],
                value=x.value[rows],
                returns=x.returns[rows],
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
        correction=torch.ones(2, dtype=torch.float64),
    )
    torch.testing.assert_close(gradient(gspo(two).loss, one), gradient(gspo(one).loss, one))


def test_sequence_weights() -> None:
    weight, tokens = torch.tensor([1.0, 0.5]), torch.tensor([10.0, 4.0])
    assert sequence_weights(weight, tokens, "sequence_mean").tolist() == [1.0, 0.5]
    assert sequence_weights(weight, tokens, "length_weighted").tolist() == [10.0, 2.0]
    with pytest.raises(ValueError, match="loss_aggregation"):
        sequence_weights(weight, tokens, "sum")
