"""ppo: GAE against its definition, one step of the learner against a loop by hand, and what a restart needs."""

from __future__ import annotations

import numpy as np
import pytest
import torch

from tests.learner.conftest import frame, make_groups
from tests.learner.loop import Sampled, loop_loss
from tests.learner.test_against_loop import HIGH, LOW, farthest, near_policy
from trainer.learner import checkpoint
from trainer.learner.batches import decode
from trainer.learner.gae import advantages, explained_variance
from trainer.learner.learner import Learner
from trainer.models import load_model

GAMMA, LAMBDA, VALUE = 0.97, 0.8, 0.4


def by_definition(rewards, values, gamma: float, gae_lambda: float) -> np.ndarray:
    """A_t = sum_l (gamma lambda)^l delta_{t+l}: each sum on its own."""
    after = [*values[1:], 0.0]
    deltas = [r + gamma * later - v for r, later, v in zip(rewards, after, values, strict=True)]
    return np.array([
        sum((gamma * gae_lambda) ** (k - t) * deltas[k] for k in range(t, len(deltas))) for t in range(len(deltas))
    ])  # fmt: skip


@pytest.mark.parametrize(("gamma", "gae_lambda"), [(1.0, 0.95), (0.9, 0.5), (1.0, 1.0), (0.99, 0.0)])
def test_gae_is_its_definition(gamma: float, gae_lambda: float) -> None:
    rng = np.random.default_rng(1)
    for length in (1, 2, 9):
        rewards, values = rng.normal(size=length), rng.normal(size=length)
        found = advantages(rewards, values, gamma=gamma, gae_lambda=gae_lambda)
        np.testing.assert_allclose(found, by_definition(rewards, values, gamma, gae_lambda), rtol=1e-12)
    if gae_lambda == 1.0:  # the return is that of the rewards alone
        np.testing.assert_allclose(found + values, rewards[::-1].cumsum()[::-1])
    if gae_lambda == 0.0:  # one step ahead
        np.testing.assert_allclose(found + values, rewards + gamma * np.append(values[1:], 0.0))


def test_explained_variance() -> None:
    returns = np.array([0.0, 1.0, 2.0, 1.0])
    assert explained_variance(returns, returns + 3.0) == 1.0
    assert explained_variance(returns, np.zeros(4)) == 0.0
    assert explained_variance(np.ones(4), returns) is None


def moved_head(learner: Learner) -> None:
    with torch.no_grad():
        weight, bias = learner.value.trainable.values()
        weight.add_(0.1 * torch.sin(torch.arange(weight.numel())))
        bias.add_(0.3)


@pytest.mark.parametrize("anchor", ["behavior", "proximal"])
def test_a_step_equals_the_loop(settings, anchor: str) -> None:
    """Ratios, GAE and both losses by hand over the stock model; gradients of the policy and of the value head."""
    learner = Learner(
        settings(
            trainer_mode="full", variety="ppo", anchor=anchor, clip_eps_low=LOW, clip_eps_high=HIGH,
            gamma=GAMMA, gae_lambda=LAMBDA, value_coef=VALUE,
        )
    )  # fmt: skip
    moved_head(learner)
    frames = near_policy(learner, per_turn=False, proximal=anchor == "proximal")
    model = load_model(learner.settings.model, "float32").double().eval()
    head = {n: p.detach().double().requires_grad_() for n, p in learner.value.trainable.items()}
    sequences = []
    for i, f in enumerate(frames):
        f.reward = float(i) - 1.0
        mask = np.frombuffer(f.mask, "u1").astype(bool)
        rewards = np.zeros(len(mask))
        rewards[np.flatnonzero(mask)[-1]] = f.reward
        if i == 1:  # credit within the episode, beside the rest at its end
            rewards[np.flatnonzero(mask)[1]] = 0.5
            f.token_reward = rewards.astype("<f4").tobytes()
        ids = torch.from_numpy(np.frombuffer(f.ids, "<i4").astype(np.int64))[None]
        out = model(ids, output_hidden_states=True)
        before = torch.from_numpy(np.flatnonzero(mask) - 1)
        logp = (out.logits[0, before] / f.temperature).log_softmax(-1)
        value = out.hidden_states[-1][0, before] @ head["value_head.weight"] + head["value_head.bias"]
        wanted = by_definition(rewards[mask], value.detach().numpy(), GAMMA, LAMBDA)
        behavior, proximal = (
            np.frombuffer(b, "<f4").astype(np.float64)[mask] if b else None for b in (f.logp_behavior, f.logp_proximal)
        )
        sampled = logp.gather(-1, ids[0, mask, None]).squeeze(-1)
        returns = value.detach() + torch.from_numpy(wanted)
        sequences.append(Sampled(sampled, behavior, wanted, f.weight, proximal, value=value, returns=returns))
    loss, _ = loop_loss("ppo", sequences, low=LOW, high=HIGH, kl_coef=0.0, episode_tokens=0, value_coef=VALUE)
    loss.backward()
    gradients = {n: p.grad for n, p in model.named_parameters() if p.grad is not None}
    gradients |= {n: p.grad for n, p in head.items()}
    scale = max(g.abs().max().item() for g in gradients.values())

    for budget in (4096, 1):
        learner.settings.micro_batch_tokens = budget
        outcome = learner._forward_backward([decode(f) for f in frames])
        assert outcome.loss + VALUE * outcome.value_loss == pytest.approx(loss.item(), abs=1e-5)
        for row, (f, x) in enumerate(zip(frames, sequences, strict=True)):
            mask = np.frombuffer(f.mask, "u1").astype(bool)
            found = np.frombuffer(outcome.advantage[row], "<f4")
            np.testing.assert_allclose(found[mask], x.advantage, atol=1e-5)
            assert not found[~mask].any()
        actual = {n: p.grad for n, p in learner.trainable.items() if p.grad is not None}
        assert actual.keys() == gradients.keys()
        assert farthest(actual, gradients) < 5e-6 * scale
        learner.optimizer.discard()


def test_it_learns_a_value_and_a_policy(settings) -> None:
    learner = Learner(settings(variety="ppo", clip_eps_low=9.0, clip_eps_high=9.0, learning_rate=1e-2))
    prompt = [1, 2, 3, 4]
    frames = [
        frame(0, [*prompt, 10, 11], [0, 0, 0, 0, 1, 1], reward=1.0),
        frame(1, [*prompt, 20, 21], [0, 0, 0, 0, 1, 1], reward=-1.0),
    ]
    logp, losses = [], []
    for step in range(1, 16):
        result = learner.step(step, frames)
        for f, s in zip(frames, result.sequences, strict=True):
            f.logp_behavior = s.logp_learner
        logp.append([float(np.frombuffer(s.logp_learner, "<f4").sum()) for s in result.sequences])
        losses.append(result.metrics["ppo/value_loss"])
    assert logp[-1][0] - logp[0][0] > 0.5 and logp[-1][1] < logp[0][1]
    # Before the first answer's token the state is the same for both rewards: half of the squares cannot be foretold.
    assert losses[0] == pytest.approx(0.95, rel=0.01) and losses[-1] == pytest.approx(0.5, abs=0.05)
    assert result.metrics["ppo/explained_variance"] == pytest.approx(0.5, abs=0.1)


def test_a_resumed_run_has_the_critic_of_the_one_before(settings, tmp_path) -> None:
    whole, first = (Learner(settings(variety="ppo")) for _ in range(2))
    expected = [whole.step(k, make_groups(seed=k, reward=0.1 * k)) for k in (1, 2, 3)][-1]
    for k in (1, 2):
        first.step(k, make_groups(seed=k, reward=0.1 * k))
    checkpoint.write(first, tmp_path, {"step": 2}, optimizer=True)
    assert (tmp_path / "value_head.safetensors").is_file()
    second = Learner(settings(variety="ppo"))
    checkpoint.read(second, tmp_path)
    result = second.step(3, make_groups(seed=3, reward=0.3))
    assert [s.advantage for s in result.sequences] == [s.advantage for s in expected.sequences]
    assert all(p.equal(whole.trainable[n]) for n, p in second.trainable.items())
    with pytest.raises(checkpoint.CheckpointUnusable, match="value_head"):
        (tmp_path / "value_head.safetensors").unlink()
        checkpoint.read(Learner(settings(variety="ppo")), tmp_path)


def test_a_reward_belongs_to_a_sampled_token() -> None:
    rewards = np.array([0, 1, 0], "<f4").tobytes()
    with pytest.raises(ValueError, match="episode 3: a reward"):
        decode(frame(3, [1, 2, 3], [0, 0, 1], token_reward=rewards))
