"""The prediction of dead groups, against numeric integration, the sketch of the interface and draws."""

import math
import random

import pytest

from rltui.smoke.report import Episode
from rltui.smoke.spread import SIZES, all_equal_binary, all_equal_resampled, spread_of


def episodes(rewards: dict[int, list[float | None]], policy: str = "self") -> list[Episode]:
    every = [(seed, member, reward) for seed, found in rewards.items() for member, reward in enumerate(found)]
    return [
        Episode(
            n, seed, member, (), (), reward, reward, excluded=None if reward is not None else "timeout", policy=policy
        )
        for n, (seed, member, reward) in enumerate(every)
    ]


def integral(successes: int, tries: int, size: int, cells: int = 20_000) -> float:
    """The same by the midpoint rule, in t with p = sin^2 t, where the density has no poles."""
    top = bottom = 0.0
    for i in range(cells):
        t = (i + 0.5) / cells * math.pi / 2
        p = math.sin(t) ** 2
        density = p**successes * (1 - p) ** (tries - successes)  # Beta(1/2 + s, 1/2 + k - s) dp = this, times dt
        bottom += density
        top += density * (p**size + (1 - p) ** size)
    return top / bottom


@pytest.mark.parametrize("size", SIZES)
@pytest.mark.parametrize(("successes", "tries"), [(0, 1), (0, 4), (2, 4), (7, 8), (30, 64)])
def test_binary_rewards_follow_the_integral(successes, tries, size):
    assert all_equal_binary(successes, tries, size) == pytest.approx(integral(successes, tries, size), rel=1e-6)


def test_the_sketch_of_the_interface():
    """2 of 4, 0 of 4 and 4 of 4: 57 % dead groups at G 4, 42 % at G 8. By hand for 2 of 4 at G 4:
    2 * (2.5 * 3.5 * 4.5 * 5.5) / (5 * 6 * 7 * 8) = 0.2578; for 0 of 4: (6.5625 + 1206.5625) / 1680 = 0.7221."""
    assert all_equal_binary(2, 4, 4) == pytest.approx(433.125 / 1680)
    assert all_equal_binary(0, 4, 4) == pytest.approx(1213.125 / 1680)
    found = spread_of(episodes({0: [1, 1, 0, 0], 1: [0, 0, 0, 0], 2: [1, 1, 1, 1]}), 4)
    assert {p.group_size: f"{p.zero_variance:.0%}" for p in found.predicted[:2]} == {4: "57%", 8: "42%"}
    assert [p.seeds for p in found.predicted] == [3, 3, 3]
    assert [seed.dead for seed in found.seeds] == [False, True, True]


def test_an_untried_coin_is_all_equal_at_three_eighths_for_pairs():
    assert all_equal_binary(0, 0, 2) == pytest.approx(0.75)  # E[p^2] = 3/8 under the arcsine law, twice


def test_other_rewards_follow_draws_with_replacement():
    rewards, draw = [0.1, 0.1, 0.5, 0.9], random.Random(7)
    dead = sum(len(set(draw.choices(rewards, k=4))) == 1 for _ in range(40_000)) / 40_000
    assert all_equal_resampled(rewards, 4) == pytest.approx(dead, abs=0.005)
    assert all_equal_resampled(rewards, 4) == pytest.approx(0.5**4 + 2 * 0.25**4)


def test_rewards_that_a_group_calls_equal_are_one():
    assert all_equal_resampled([0.3, 0.3 + 5e-7], 8) == 1
    found = spread_of(episodes({0: [0.3, 0.3 + 5e-7], 1: [0.3, 0.4]}), 2)
    assert [seed.dead for seed in found.seeds] == [True, False]


def test_a_seed_played_once_tells_nothing_of_other_rewards():
    found = spread_of(episodes({0: [0.25, 0.75], 1: [0.5]}), 2)
    assert [(p.seeds, p.zero_variance) for p in found.predicted] == [(1, 2 * 0.5**size) for size in SIZES]


def test_excluded_episodes_count_nowhere():
    found = spread_of(episodes({0: [1.0, None], 1: [None, None]}), 2)
    assert [(seed.seed, seed.rewards) for seed in found.seeds] == [(0, (1.0,))]
    assert not found.predicted and "two finished" in found.unpredicted
    empty = spread_of(episodes({0: [None]}), 2)
    assert (empty.mean, empty.std, empty.low, empty.high, empty.warnings) == (None, None, None, None, ())


@pytest.mark.parametrize("policy", ["mock", "scripted", "human"])
def test_who_is_no_model_predicts_nothing(policy):
    found = spread_of(episodes({0: [0, 1], 1: [1, 1]}, policy), 2)
    assert found.predicted == () and "--policy self" in found.unpredicted
    assert found.mean == 0.75


def test_another_model_is_named():
    found = spread_of(episodes({0: [0, 1]}, "gpt-5-nano"), 2)
    assert found.predicted and "gpt-5-nano" in found.unpredicted and "not the model to be trained" in found.unpredicted


@pytest.mark.parametrize(
    ("rewards", "words"),
    [
        ({0: [0, 0], 1: [0, 0]}, ["all 4 rewards are 0: nothing to learn from"]),
        ({0: [0, 0], 1: [1, 1]}, ["within each of 2 seeds they are all equal"]),
        ({0: [0.5, 12.5], 1: [-1, 0]}, ["2 of 4 rewards lie outside 0 to 1 (such as 12.5)"]),
        ({0: [0, 1], 1: [1, 1]}, []),
        ({0: [0], 1: [1]}, []),
    ],
)
def test_what_is_warned_of(rewards, words):
    found = spread_of(episodes(rewards), 2).warnings
    assert len(found) == len(words) and all(part in text for part, text in zip(words, found, strict=True))
