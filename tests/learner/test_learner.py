from __future__ import annotations

import numpy as np
import pytest
import torch

from tests.learner.conftest import frame, make_groups
from trainer.learner.learner import Learner, TrainingFailed
from trainer.learner.protocol import Sequence


def with_own_logp(learner: Learner, frames: list[Sequence]) -> list[Sequence]:
    """The frames as if this policy had sampled them (lag 0): nothing is learned, rate 0."""
    rate = learner.settings.learning_rate
    learner.settings.learning_rate = 0.0
    result = learner.step(1, frames)
    learner.settings.learning_rate = rate
    learner.sd_seq, learner.logp_noise, learner.steps = None, None, 0
    for f, r in zip(frames, result.sequences, strict=True):
        f.logp_behavior = r.logp_learner
    return frames


def gradients(settings, frames, **changes) -> dict[str, torch.Tensor]:
    learner = Learner(settings(**changes))
    with torch.no_grad():
        for i, p in enumerate(learner.policy.trainable.values()):
            p.add_(0.05 * torch.sin(torch.arange(p.numel()) + i).view(p.shape))
    learner.policy.refresh()
    from trainer.learner.batches import decode

    outcome = learner._forward_backward([decode(f) for f in frames])
    assert outcome.problem is None
    return {n: p.grad for n, p in learner.policy.trainable.items()}


@pytest.mark.parametrize("mode", ["lora", "full"])
@pytest.mark.parametrize("aggregation", ["sequence_mean", "length_weighted"])
def test_micro_batches_and_order_do_not_matter(settings, mode: str, aggregation: str) -> None:
    frames = make_groups(groups=3, size=3)
    changes = {
        "trainer_mode": mode,
        "loss_aggregation": aggregation,
        "clip_eps_low": 0.9,
        "clip_eps_high": 9.0,
    }
    whole = gradients(settings, frames, **changes)
    scale = max(g.abs().max() for g in whole.values())
    for other in (
        gradients(settings, frames, micro_batch_tokens=1, **changes),
        gradients(settings, frames, micro_batch_tokens=40, **changes),
        gradients(settings, frames[::-1], **changes),
    ):
        for name, g in whole.items():
            assert ((other[name] - g).abs().max() / scale).item() < 1e-6


def test_a_fork_counts_as_one_episode(settings) -> None:
    """Weights 1/2 of two equal branches: the gradient of the episode unforked, and N stays 2."""
    a, b = make_groups(groups=1, size=2)
    fork = [frame_with(a, branch=k, weight=0.5) for k in (0, 1)]
    one, two = gradients(settings, [a, b]), gradients(settings, [*fork, b])
    for name in one:
        torch.testing.assert_close(one[name], two[name], rtol=1e-4, atol=1e-7)


def frame_with(f: Sequence, **changes) -> Sequence:
    return Sequence(**({n: getattr(f, n) for n in f.__struct_fields__} | changes))


def test_the_loss_is_normalised_by_what_carries_gradient(settings) -> None:
    learner = Learner(settings())
    frames = with_own_logp(learner, make_groups(groups=2, size=2))
    expected = -np.mean([f.advantage for f in frames])
    assert learner.step(1, frames).metrics["gspo/loss"] == pytest.approx(expected, rel=1e-5)


@pytest.mark.parametrize(
    "changes",
    [{}, {"variety": "gspo_token"}, {"trainer_mode": "full", "learning_rate": 3e-3}, {"dtype": "bfloat16"},
     {"trainer_mode": "full", "dtype": "bfloat16", "learning_rate": 3e-3}],
    ids=str,
)  # fmt: skip
def test_good_answers_become_likelier(settings, changes) -> None:
    learner = Learner(settings(clip_eps_low=9.0, clip_eps_high=9.0, **changes))
    prompt = [1, 2, 3, 4]
    good = frame(0, [*prompt, 10, 11], [0, 0, 0, 0, 1, 1], advantage=1.0)
    bad = frame(1, [*prompt, 20, 21], [0, 0, 0, 0, 1, 1], advantage=-1.0)
    frames = with_own_logp(learner, [good, bad])
    results = [learner.step(k, frames) for k in range(1, 9)]
    first, last = ([np.frombuffer(s.logp_learner, "<f4").sum() for s in r.sequences] for r in (results[0], results[-1]))
    assert last[0] - first[0] > 0.5 and last[1] < first[1]
    assert results[-1].metrics["optim/update_ratio"] > 0


def test_what_a_step_reports(settings) -> None:
    learner = Learner(settings(lr_schedule="linear", total_steps=10))
    frames = with_own_logp(learner, make_groups())
    result = learner.step(1, frames)
    assert result.skipped is None and not result.nonfinite and not result.culprits
    assert result.metrics["gspo/ratio_mean"] == pytest.approx(1.0, abs=1e-5)
    assert result.metrics["ess"] == pytest.approx(len(frames), rel=1e-4)
    assert result.metrics["optim/lr"] == 1e-2 and result.metrics["optim/skipped"] == 0
    assert result.metrics["entropy"] > 1
    assert result.metrics["gspo/clip_noise_floor"] == 0
    assert {"optim/grad_norm", "optim/clipped_frac", "time/forward_backward"} <= result.metrics.keys()
    for f, s in zip(frames, result.sequences, strict=True):
        assert (s.n, s.branch, s.clip) == (f.n, f.branch, "none")
        logp, mask = np.frombuffer(s.logp_learner, "<f4"), np.frombuffer(f.mask, "u1")
        assert not logp[mask == 0].any() and (logp[mask == 1] < 0).all()
    moved = learner.step(2, frames)
    assert moved.metrics["optim/lr"] == pytest.approx(0.9e-2)
    assert moved.metrics["gspo/ratio_max"] > 1.001


def test_noise_is_measured_on_fresh_episodes_only(settings) -> None:
    learner = Learner(settings(dtype="bfloat16"))
    exact = Learner(settings())
    frames = with_own_logp(exact, make_groups())
    learner.step(1, frames)
    measured, version_0 = learner.sd_seq, learner.logp_noise
    assert 0 < measured < 0.1 and version_0["mean"] > 0
    for sequence in frames:
        sequence.lag = 1
    learner.step(2, frames)  # the policy has moved: this spread is not noise
    assert (learner.sd_seq, learner.logp_noise) == (measured, version_0)


def test_a_clipped_sequence_is_marked(settings) -> None:
    learner = Learner(settings())
    frames = with_own_logp(learner, make_groups(groups=1, size=2))
    for f, shift, advantage in zip(frames, (-1.0, 1.0), (1.0, -1.0), strict=True):
        f.logp_behavior = (np.frombuffer(f.logp_behavior, "<f4") + np.float32(shift)).tobytes()
        f.advantage = advantage
    result = learner.step(1, frames)
    assert [s.clip for s in result.sequences] == ["high", "low"]
    assert result.metrics["optim/grad_norm"] == 0


def test_a_non_finite_loss_skips_names_and_in_the_end_fails(settings) -> None:
    learner = Learner(settings())
    frames = with_own_logp(learner, make_groups(groups=1, size=3))
    before = {n: p.detach().clone() for n, p in learner.policy.trainable.items()}
    good = frames[1].logp_behavior
    frames[1].logp_behavior = np.full(len(good) // 4, np.nan, "<f4").tobytes()
    result = learner.step(1, frames)
    assert result.skipped == "the loss is not finite" and result.culprits == [1]
    assert "logp_gap/mean" in result.nonfinite and "logp_gap/mean" not in result.metrics
    assert result.metrics["optim/skipped"] == 1
    assert all(p.equal(before[n]) for n, p in learner.policy.trainable.items())
    frames[1].logp_behavior = good
    assert learner.step(2, frames).skipped is None  # and the count starts anew
    frames[1].logp_behavior = np.full(len(good) // 4, np.nan, "<f4").tobytes()
    learner.step(3, frames)
    learner.step(4, frames)
    with pytest.raises(TrainingFailed, match=r"3 steps in a row made no update.*episodes 1\)"):
        learner.step(5, frames)


def test_ratios_beyond_every_bound_make_no_update_and_in_the_end_fail(settings) -> None:
    learner = Learner(settings())
    frames = with_own_logp(learner, make_groups())
    before = {name: p.detach().clone() for name, p in learner.policy.trainable.items()}
    for f in frames[: len(frames) // 2]:  # half of them: clipped, and the rest is learned from
        f.logp_behavior = (np.frombuffer(f.logp_behavior, "<f4") - 6.0).astype("<f4").tobytes()
    assert learner.step(1, frames).skipped is None
    with torch.no_grad():
        for name, p in learner.policy.trainable.items():
            p.copy_(before[name])
    last = frames[-1]
    last.logp_behavior = (np.frombuffer(last.logp_behavior, "<f4") + 6.0).astype("<f4").tobytes()
    for step in (2, 3):
        result = learner.step(step, frames)
        assert result.skipped is not None and "weights are far from those that sampled" in result.skipped
        assert last.n in result.culprits and result.metrics["gspo/ratio_max"] > 300  # raw, for whoever looks
    with pytest.raises(TrainingFailed, match="3 steps in a row"):
        learner.step(4, frames)
    assert all(torch.equal(p, before[name]) for name, p in learner.policy.trainable.items())


def test_a_non_finite_gradient_skips(settings) -> None:
    learner = Learner(settings())
    frames = with_own_logp(learner, make_groups())
    next(iter(learner.policy.trainable.values())).register_hook(lambda g: g * float("inf"))
    result = learner.step(1, frames)
    assert result.skipped == "a gradient is not finite" and result.culprits
    assert all(p.grad is None for p in learner.policy.trainable.values())


def test_weights_that_are_not_finite_are_fatal(settings) -> None:
    learner = Learner(settings(learning_rate=float("inf")))
    with pytest.raises(TrainingFailed, match="not synced"):
        learner.step(1, with_own_logp(learner, make_groups()) and make_groups())


def test_settings(settings) -> None:
    learner = Learner(settings())
    learner.set({"learning_rate": 0.5, "clip_eps_low": 0.3})
    assert learner.step(1, make_groups()).metrics["optim/lr"] == 0.5
    with pytest.raises(ValueError, match="seed cannot be changed"):
        learner.set({"learning_rate": 0.9, "seed": 4})
    with pytest.raises(ValueError, match="reference_placement is none"):
        learner.set({"learning_rate": 0.9, "kl_coef": 0.1})
    assert learner.settings.learning_rate == 0.5  # all or nothing
    for wrong, message in (
        ({"variety": "reinforce"}, "algorithm.variety"),
        ({"anchor": "exact"}, "training.anchor"),
        ({"reference": "remote"}, "compute.topology.reference_placement"),
        ({"kl_coef": 0.1}, "reference_placement is none"),
    ):
        with pytest.raises(ValueError, match=message):
            Learner(settings(**wrong))
    with pytest.raises(ValueError, match="no sequence"):
        learner.step(2, [])
