"""The packed learner in float32 against a plain loop in float64 over stock models, one sequence at a time."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from peft import get_peft_model
from torch import Tensor

from tests.learner.conftest import make_groups
from tests.learner.loop import Sampled, loop_loss
from trainer.learner.batches import decode
from trainer.learner.learner import Learner
from trainer.learner.policy import lora_config
from trainer.learner.protocol import Sequence, from_frame, to_frame
from trainer.models import load_model

LOW, HIGH, KL, EPISODE_TOKENS = 0.05, 0.08, 0.3, 64


def moved(settings, **changes) -> Learner:
    """A learner some way from the start weights."""
    learner = Learner(settings(clip_eps_low=LOW, clip_eps_high=HIGH, episode_tokens=EPISODE_TOKENS, **changes))
    with torch.no_grad():
        for i, p in enumerate(learner.policy.trainable.values()):
            p.add_(0.02 * torch.sin(torch.arange(p.numel()) + i).view(p.shape))
    learner.policy.refresh()
    return learner


def near_policy(learner: Learner, *, per_turn: bool, proximal: bool, seed: int = 0) -> list[Sequence]:
    """Groups sampled near this policy, one of the episodes forked in two branches."""
    frames = make_groups(groups=2, size=2, temperature=0.8)
    frames += [from_frame(to_frame(frames[-1]) | {"branch": 1}, Sequence)]
    frames[-2].weight = frames[-1].weight = 0.5
    rng = np.random.default_rng(seed)
    for f, logp in zip(frames, learner._logps([decode(f) for f in frames]), strict=True):
        mask = np.frombuffer(f.mask, "u1")

        def near(logp=logp, mask=mask) -> bytes:
            # a part that a sequence's tokens share, and one of their own: both sides of both clips are met
            noise = rng.choice([-0.12, 0.0, 0.12]) + rng.normal(0, 0.1, len(mask))
            return ((logp + noise) * mask).astype("<f4").tobytes()

        f.logp_behavior = near()
        f.logp_proximal = near() if proximal else b""
        turns = np.where(np.arange(len(mask)) < len(mask) - 2, f.advantage, -0.5 * f.advantage)
        f.token_advantage = turns.astype("<f4").tobytes() if per_turn else b""
    return frames


def stock_logp(model: torch.nn.Module, f: Sequence) -> Tensor:
    """[T_i] of the sampled tokens of one sequence."""
    ids = torch.from_numpy(np.frombuffer(f.ids, "<i4").astype(np.int64)).unsqueeze(0)
    mask = torch.from_numpy(np.frombuffer(f.mask, "u1").astype(bool))
    logp = torch.log_softmax(model(ids).logits[0, :-1] / f.temperature, dim=-1)
    return logp.gather(-1, ids[0, 1:, None]).squeeze(-1)[mask[1:]]


def assert_equals_loop(learner: Learner, frames: list[Sequence]) -> None:
    s, policy = learner.settings, learner.policy
    model, base = load_model(s.model, "float32"), load_model(s.model, "float32").double().eval()
    if policy.lora is None:
        model.load_state_dict({n: p.detach() for n, p in policy.trainable.items()}, strict=False)
    else:
        model = get_peft_model(model, lora_config(s))
        model.load_state_dict(policy.lora.model.state_dict())
    model = model.double().eval()

    sequences = []
    for f in frames:
        mask = np.frombuffer(f.mask, "u1").astype(bool)
        behavior, proximal, advantage = (
            np.frombuffer(b, "<f4").astype(np.float64)[mask] if b else None
            for b in (f.logp_behavior, f.logp_proximal, f.token_advantage)
        )
        advantage = np.full(mask.sum(), f.advantage) if advantage is None else advantage
        reference = stock_logp(base, f).detach() if s.kl_coef else None
        sequences.append(Sampled(stock_logp(model, f), behavior, advantage, f.weight, proximal, reference))
    loss, kl = loop_loss(s.variety, sequences, low=LOW, high=HIGH, kl_coef=s.kl_coef, episode_tokens=EPISODE_TOKENS)
    loss.backward()
    wanted = {n: p.grad for n, p in model.named_parameters() if p.grad is not None}
    scale = max(g.abs().max().item() for g in wanted.values())
    assert scale > 1e-3

    whole: dict[str, Tensor] = {}
    for budget in (4096, 1):  # in one micro-batch, and in one each
        s.micro_batch_tokens = budget
        outcome = learner._forward_backward([decode(f) for f in frames])
        assert outcome.loss == pytest.approx(loss.item(), abs=1e-6)
        if s.kl_coef:
            assert learner._metrics(outcome, None)["gspo/kl"] == pytest.approx(kl, rel=1e-4)
        actual = {n: p.grad for n, p in policy.trainable.items() if p.grad is not None}
        assert wanted.keys() == actual.keys()
        # Not 1e-6: the stock model's own gradient in float32 is up to 2e-6 from that in float64, whatever the loss, for
        # its activations are rounded in the forward pass. The losses themselves are exact (test_loss.py).
        assert farthest(actual, wanted) < 5e-6 * scale
        whole = whole or actual
        assert farthest(actual, whole) < 1e-6 * scale
        learner.optimizer.discard()


def farthest(found: dict[str, Tensor], wanted: dict[str, Tensor]) -> float:
    return max((found[name] - gradient).abs().max().item() for name, gradient in wanted.items())


@pytest.mark.parametrize("kl_coef", [0.0, KL])
@pytest.mark.parametrize("anchor", ["behavior", "proximal"])
@pytest.mark.parametrize("variety", ["gspo", "gspo_token", "grpo", "dr_grpo"])
def test_lora(settings, variety: str, anchor: str, kl_coef: float) -> None:
    learner = moved(settings, variety=variety, anchor=anchor, kl_coef=kl_coef, reference="shared")
    assert_equals_loop(learner, near_policy(learner, per_turn=variety != "gspo", proximal=anchor == "proximal"))


@pytest.mark.parametrize("variety", ["gspo", "gspo_token", "grpo", "dr_grpo"])
def test_full_with_a_penalty(settings, variety: str) -> None:
    learner = moved(settings, trainer_mode="full", variety=variety, anchor="proximal", kl_coef=KL, reference="shared")
    assert_equals_loop(learner, near_policy(learner, per_turn=variety != "gspo", proximal=True))
