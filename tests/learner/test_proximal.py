"""The proximal anchor: recomputed before an iteration's first update, weighed and masked against the behaviour."""

from __future__ import annotations

import numpy as np
import pytest

from tests.learner.conftest import frame, make_groups
from trainer.learner.batches import decode
from trainer.learner.learner import Learner
from trainer.learner.protocol import AnchorResult, Sequence, take_anchor
from trainer.learner.proximal import band, correction, geometric_ratio, mean_log_ratio


def shifted(f: Sequence, shift: float, logp: np.ndarray) -> None:
    """As if it had been sampled by a policy that gave each of its tokens a log-probability lower by `shift`."""
    mask = np.frombuffer(f.mask, "u1")
    f.logp_behavior = ((logp - shift) * mask).astype("<f4").tobytes()


def anchored(learner: Learner, shifts: list[float], lags: list[int] | None = None) -> tuple[list, AnchorResult]:
    frames = make_groups(groups=1, size=len(shifts))
    logps = learner._logps([decode(f) for f in frames])
    for f, shift, logp, lag in zip(frames, shifts, logps, lags or [1] * len(shifts), strict=True):
        shifted(f, shift, logp)
        f.lag = lag
    return frames, learner.anchor([frames])


@pytest.fixture
def learner(settings) -> Learner:
    return Learner(settings(anchor="proximal", clip_eps_low=3e-4, clip_eps_high=4e-4))


def test_the_pure_rules() -> None:
    mask = np.array([False, True, True])
    mean = mean_log_ratio(np.float32([9, -1, -2]), np.float32([np.nan, -2, -2]), mask)
    assert mean == 0.5 and geometric_ratio(mean) == pytest.approx(np.exp(0.5))
    assert (correction(0.3), correction(7.0)) == (0.3, 2.0)
    assert band(None) == (0.99, 1.01) and band(0.02) == pytest.approx((0.94, 1.06))
    assert geometric_ratio(1e6) == pytest.approx(np.exp(10))


def test_the_anchor_is_the_policy_before_the_first_update(learner: Learner) -> None:
    frames, result = anchored(learner, [0.004, 0.0, -0.004])
    assert [s.prox for s in result.sequences] == pytest.approx(np.exp([0.004, 0.0, -0.004]), rel=1e-5)
    kept, masked = take_anchor(frames, result)
    assert masked == [] and [s.n for s in kept] == [f.n for f in frames]
    first = learner.step(1, kept)
    assert first.metrics["gspo/ratio_min"] == pytest.approx(1.0, abs=1e-6) == first.metrics["gspo/ratio_max"]
    assert [s.prox for s in first.sequences] == pytest.approx([s.prox for s in result.sequences])
    for sequence, anchor in zip(first.sequences, result.sequences, strict=True):
        np.testing.assert_allclose(
            np.frombuffer(sequence.logp_learner, "<f4"), np.frombuffer(anchor.logp_proximal, "<f4"), atol=1e-6
        )
    second = learner.step(2, kept)  # the anchor stays, the policy has moved
    assert second.metrics["gspo/ratio_max"] > 1.001
    assert second.metrics["gspo/clip_noise_floor"] < 1e-6  # of the ratio that the clip sees: learner against learner


def test_what_left_the_band_is_masked_and_leaves_the_denominator(learner: Learner) -> None:
    frames, result = anchored(learner, [0.002, 0.02, -0.02, 0.005])
    assert (result.low, result.high) == (0.99, 1.01)
    kept, masked = take_anchor(frames, result)
    assert [s.n for s in kept] == [0, 3] and [(s.n, s.branch) for s in masked] == [(1, 0), (2, 0)]
    assert [s.prox for s in masked] == pytest.approx(np.exp([0.02, -0.02]), rel=1e-5)
    c = np.exp([0.002, 0.005])
    advantages = np.array([frames[0].advantage, frames[3].advantage])
    assert learner.step(1, kept).metrics["gspo/loss"] == pytest.approx(-(c * advantages).mean(), rel=1e-4)


def test_the_band_follows_the_noise_of_sequences_sampled_with_these_weights(learner: Learner) -> None:
    _, result = anchored(learner, [0.02, -0.02, 0.05, 0.3], lags=[0, 0, 1, 1])
    sd = np.std([0.02, -0.02], ddof=1)
    assert result.sd_seq == pytest.approx(sd, rel=1e-4) and learner.sd_seq == result.sd_seq
    assert result.high == pytest.approx(1 + 3 * sd, rel=1e-4)
    assert [s.masked for s in result.sequences] == [False, False, False, True]
    assert anchored(learner, [0.5, 0.5], lags=[3, 3])[1].sd_seq == result.sd_seq  # none fresh: the last measured


def test_the_lag_of_a_later_step_counts_the_steps_before_it(learner: Learner) -> None:
    frames = make_groups(groups=1, size=4)
    for f, logp, shift in zip(frames, learner._logps([decode(f) for f in frames]), [1, -1, 2, -2], strict=True):
        shifted(f, 0.01 * shift, logp)
    for f in frames[2:]:
        f.lag = 1
    result = learner.anchor([frames[:2], [], frames[2:]])  # the third step's lag 1: sampled after the first's start
    assert result.sd_seq == pytest.approx(np.std([0.01, -0.01], ddof=1), rel=1e-4)
    assert learner.anchor([frames[:2], frames[2:]]).sd_seq == pytest.approx(
        np.std([0.01, -0.01, 0.02, -0.02], ddof=1), rel=1e-4
    )


def test_a_sequence_without_its_anchor_is_an_error(learner: Learner, settings) -> None:
    frames = make_groups()
    with pytest.raises(ValueError, match="episode 0 has no log-probabilities of a proximal anchor"):
        learner.step(1, frames)
    kept, _ = take_anchor(*anchored(learner, [0.0, 0.0]))
    with pytest.raises(ValueError, match="it is behavior"):
        Learner(settings()).step(1, kept)
    kept[0].logp_proximal = kept[0].logp_proximal[:-4]
    with pytest.raises(ValueError, match="episode 0: its arrays have unequal lengths"):
        learner.step(1, kept)


def test_a_behaviour_that_is_no_number_is_not_masked_but_named(learner: Learner) -> None:
    frames, _ = anchored(learner, [0.0, 0.0])
    frames[1].logp_behavior = np.full(len(frames[1].ids) // 4, np.nan, "<f4").tobytes()
    kept, masked = take_anchor(frames, learner.anchor([frames]))
    assert len(kept) == 2 and not masked
    assert learner.step(1, kept).culprits == [1]


def test_branches_are_told_apart(learner: Learner) -> None:
    a, b = (frame(0, [1, 2, 3 + k], [0, 1, 1], branch=k, lag=1) for k in (0, 1))
    logps = learner._logps([decode(a), decode(b)])
    shifted(a, 0.0, logps[0])
    shifted(b, 0.5, logps[1])
    kept, masked = take_anchor([b, a], learner.anchor([[a, b]]))
    assert [s.branch for s in kept] == [0] and [s.branch for s in masked] == [1]
