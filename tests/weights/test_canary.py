"""The rule of the canary, without engine or learner."""

from __future__ import annotations

from math import inf

import numpy as np
import pytest

from trainer.inference.kv_cache import PrefixCache
from trainer.inference.local import LocalEngine
from trainer.weights.canary import RESOLUTION, Reading, candidates, judge, line, most_noise
from trainer.weights.prefixes import PASSAGES, prefixes

P, K, NOISE = 64, 20, 0.01


class World:
    """Exact log-probabilities of K candidates at two versions; engine and learner see them with noise."""

    def __init__(self, change: float, seed: int = 0) -> None:
        self.rng = np.random.default_rng(seed)
        self.before = self.rng.normal(-3.0, 1.0, (P, K))
        self.after = self.before + self.rng.normal(0.0, change, (P, K))

    def seen(self, exact):
        return (exact + self.rng.normal(0.0, NOISE / np.sqrt(2.0), (P, K))).astype(np.float32)

    def verdict(self, engine_now, noise=NOISE):
        tokens = np.arange(P * K, dtype=np.int32).reshape(P, K)
        before = Reading(tokens, self.seen(self.before), self.seen(self.before))
        tops = [
            dict(zip(row.tolist(), logp.tolist(), strict=True)) for row, logp in zip(tokens, engine_now, strict=True)
        ]
        learner = self.seen(self.after)
        return judge(before, tops, learner, Reading(tokens, engine_now, learner), noise)


@pytest.mark.parametrize("change", [1.5 * NOISE, 2 * NOISE, 5 * NOISE, 1.0])
def test_a_noisy_good_sync_passes_at_every_size(change):
    """An ordinary regression would give 0.55 and fail the first two."""
    for seed in range(20):
        world = World(change, seed)
        finding = world.verdict(world.seen(world.after))
        assert finding.verdict == "verified", finding


@pytest.mark.parametrize("change", [1.5 * NOISE, 2 * NOISE, 5 * NOISE, 1.0])
def test_no_change_a_wrong_one_and_half_of_it_fail(change):
    for seed in range(20):
        world = World(change, seed)
        half = (world.before + world.after) / 2
        for exact in (world.before, 2 * world.before - world.after, half):
            assert world.verdict(world.seen(exact)).verdict == "failed"


def test_a_change_below_the_noise_is_undecided_unless_the_engine_changed_far_more():
    world = World(0.3 * NOISE)
    assert world.verdict(world.seen(world.after)).verdict == "undecided"
    assert world.verdict(world.seen(world.before)).verdict == "undecided"
    elsewhere = world.before + world.rng.normal(0.0, 10 * NOISE, (P, K))
    assert world.verdict(world.seen(elsewhere)).verdict == "failed"


def test_a_right_slope_with_too_much_besides_fails():
    world = World(1.0)
    blurred = world.after + world.rng.normal(0.0, 5 * NOISE, (P, K))
    finding = world.verdict(world.seen(blurred))
    assert finding.verdict == "failed" and 0.9 < finding.slope < 1.1 and finding.residual > 3 * NOISE


def test_noise_that_has_grown_since_version_0_counts_as_far_as_it_was_verified():
    for version_0 in (NOISE, NOISE / 4):
        world = World(1.0)
        finding = world.verdict(world.seen(world.after), noise=version_0)
        assert finding.verdict == "verified" and finding.noise > 0.9 * NOISE
        assert world.verdict(world.seen(world.before), noise=version_0).verdict == "failed"


def test_noise_that_grows_without_end_stops_counting():
    """An engine that is a bit further off at every version would raise its own threshold for ever."""
    world = World(1.0)
    version_0 = NOISE / 40  # of which ten times count
    assert world.verdict(world.seen(world.after), noise=version_0).noise == pytest.approx(NOISE / 4)
    assert world.verdict(world.seen(world.after), noise=version_0).verdict == "failed"


def test_numbers_that_are_none_fail():
    world = World(1.0)
    engine = world.seen(world.after)
    engine[0, 0] = np.nan
    assert world.verdict(engine).verdict == "failed"


def test_a_candidate_that_the_engine_no_longer_lists_counts_where_the_learner_contradicts():
    tokens = np.arange(P * 2, dtype=np.int32).reshape(P, 2)
    level = np.linspace(-3, -2, P * 2).reshape(P, 2).astype(np.float32)
    before = Reading(tokens, level, level)
    up = level + np.linspace(-1, 1, P * 2).reshape(P, 2).astype(np.float32)
    lists = [{int(t[0]): float(u[0]), -1: float(u[0]) - 0.1} for t, u in zip(tokens, up, strict=True)]
    agrees = up.copy()
    agrees[:, 1] = up[:, 0] - 1.0  # fell out of the engine's list, rightly
    assert judge(before, lists, agrees, before, 1e-4).verdict == "verified"
    denies = up.copy()
    denies[:, 1] = up[:, 0] + 1.0  # should head the engine's list, and is not on it
    assert judge(before, lists, denies, before, 1e-4).verdict == "failed"


def test_with_no_candidate_left_the_levels_are_compared():
    world = World(1.0)
    tokens = np.arange(P * K, dtype=np.int32).reshape(P, K)
    before = Reading(tokens, world.seen(world.before), world.seen(world.before))
    tops = [dict(zip((tokens[p] + P * K).tolist(), world.before[p].tolist(), strict=True)) for p in range(P)]
    fell = np.full((P, K), -50.0, np.float32)
    now = Reading(tokens + P * K, world.seen(world.after), world.seen(world.after))
    assert judge(before, tops, fell, now, NOISE).verdict == "verified"
    wrong = Reading(tokens + P * K, world.seen(world.before), world.seen(world.after))
    assert judge(before, tops, fell, wrong, NOISE).verdict == "failed"


def test_a_line_through_changes_of_nothing():
    x = np.array([1.0, -1.0, 2.0, -2.0])
    assert line(x, np.zeros(4)) == (0.0, 0.0)
    assert line(np.zeros(4), x)[0] == np.inf
    assert line(x, 3 * x) == pytest.approx((3.0, 0.0))


@pytest.mark.parametrize(
    ("noise", "measured", "dtype", "is_noise"),
    [
        (0.63, 1e-6, "float32", False),  # answers that do not depend on the question
        (0.63, None, "float32", False),
        (2e-4, 1e-6, "float32", True),  # another engine
        (0.05, 0.02, "bfloat16", True),
        (0.6, 0.02, "bfloat16", False),
        (0.6, 0.1, "bfloat16", True),  # no more than its run lived with
        (inf, None, "bfloat16", False),
    ],
)
def test_what_engine_and_learner_differ_by_at_the_start_is_noise_or_another_model(noise, measured, dtype, is_noise):
    assert (noise <= most_noise(measured, dtype)) == is_noise


def test_what_is_not_finite_is_no_noise():
    tokens = np.zeros((1, 2), np.int32)
    for wrong in (np.nan, -np.inf):
        one = np.array([[wrong, -1.0]], np.float32)
        assert Reading(tokens, one, one).noise == inf


def test_equal_numbers_leave_the_resolution_as_noise():
    level = np.zeros((P, K), np.float32)
    assert Reading(np.zeros((P, K), np.int32), level, level).noise == RESOLUTION


def test_candidates_are_the_likeliest_that_all_prefixes_have():
    tokens, logp = candidates([{1: -3.0, 2: -1.0, 3: -2.0}, {4: -1.0, 5: -2.0}])
    assert tokens.tolist() == [[2, 3], [4, 5]] and logp.tolist() == [[-1.0, -2.0], [-1.0, -2.0]]
    with pytest.raises(ValueError, match="no likeliest tokens"):
        candidates([{1: -1.0}, {}])


def test_prefixes_are_64_different_ones_longer_than_two_blocks_and_share_their_beginnings():
    passages = [list(text.encode()) for text in PASSAGES]
    found = prefixes(passages, 128, 4096)
    assert len({ids.tobytes() for ids in found}) == 64
    assert {len(ids) for ids in found} == {260}  # two blocks of 128, and an end that no block holds
    assert len({ids[:256].tobytes() for ids in found}) == 4
    assert all(np.array_equal(a, b) for a, b in zip(found, prefixes(passages, 128, 4096), strict=True))
    assert {len(ids) for ids in prefixes(passages, 128, 48)} == {46}
    assert {len(ids) for ids in prefixes(passages, LocalEngine.cache_block, 4096)} == {36}
    assert LocalEngine.cache_block == PrefixCache.MIN_SHARED
    assert {len(ids) for ids in prefixes([[1, 2], [3], [4, 5], [6]], 128, 4096)} == {260}
    with pytest.raises(ValueError, match="too short"):
        prefixes(passages, 16, 6)
