from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.rewards.bodies import answer, step
from trainer.rewards.advantages import (
    critic_advantages,
    group_advantages,
    mean_and_std,
    score_group,
    turn_advantages,
)
from trainer.rewards.episode import EpisodeReward, JudgeScores, reward_of, turn_rewards
from trainer.rewards.rules import Blend, RewardRules


def test_closed_form() -> None:
    group = group_advantages([1.0, 2.0, 3.0, 6.0])
    assert (group.mean, group.dead) == (3.0, False)
    assert group.std == pytest.approx(np.sqrt(14 / 4))  # population, not sample
    assert group.advantages == pytest.approx(np.array([-2, -1, 0, 3]) / (np.sqrt(3.5) + 1e-6))


def test_without_std_only_centres() -> None:
    assert group_advantages([0.0, 1.0], std=False).advantages == pytest.approx([-0.5, 0.5])


@pytest.mark.parametrize(("rewards", "dead"), [([1, 1 + 9e-7], True), ([1, 1 + 1.1e-6], False), ([5.0], True)])
def test_dead_by_range(rewards: list[float], dead: bool) -> None:
    group = group_advantages(rewards)
    assert group.dead is dead
    assert not (group.dead and group.advantages.any())


@pytest.mark.parametrize("rewards", [[], [1.0, float("nan")], [float("inf"), 0.0]])
def test_refuses_what_has_no_advantage(rewards: list[float]) -> None:
    with pytest.raises(ValueError, match="finite rewards"):
        group_advantages(rewards)


@given(st.lists(st.floats(-100, 100), min_size=2, max_size=16), st.floats(0.1, 10), st.floats(-50, 50))
def test_no_scale_or_offset_matters(rewards: list[float], scale: float, offset: float) -> None:
    first = group_advantages(rewards)
    second = group_advantages([scale * r + offset for r in rewards])
    if first.std > 1e-2 and second.std > 1e-2:
        assert second.advantages == pytest.approx(first.advantages, abs=1e-2)
        assert first.advantages.sum() == pytest.approx(0, abs=1e-6)


# --- per turn

# R = 2, 1, 0. Three episodes of 3, 2 and 1 turns: G_0 of all, G_1 of two, G_2 of one.
RETURNS = [[2.0, 1.0, 1.0], [1.0, 0.0], [0.0]]


def test_each_turn_is_compared_with_the_same_turn_of_the_others() -> None:
    group = turn_advantages(RETURNS, [2.0, 1.0, 0.0], std=False)
    # baselines: (2 + 1 + 0) / 3 = 1; (1 + 0) / 2 = .5; one episode alone: (2 + 1 + 1 + 1 + 0 + 0) / 6 = 5/6
    assert [list(turns) for turns in group.turns] == [[1.0, 0.5, pytest.approx(1 / 6)], [0.0, -0.5], [-1.0]]
    assert (group.mean, group.std, group.dead) == (1.0, pytest.approx(np.sqrt(2 / 3)), False)


def test_the_scale_is_the_spread_of_all_returns_of_the_group() -> None:
    # mean square 7/6, mean 5/6: variance 42/36 - 25/36, std = sqrt(17) / 6 = .6871843
    group = turn_advantages(RETURNS, [2.0, 1.0, 0.0])
    assert [list(turns) for turns in group.turns] == [
        pytest.approx([1.455212, 0.727606, 0.242535], abs=2e-6),
        pytest.approx([0.0, -0.727606], abs=2e-6),
        pytest.approx([-1.455212], abs=2e-6),
    ]
    assert group.advantages == pytest.approx([0.808451, -0.363803, -1.455212], abs=2e-6)  # the mean of each


def test_the_uniform_advantages_of_the_same_group() -> None:
    # (2 - 1, 1 - 1, 0 - 1) / (sqrt(2/3) + 1e-6)
    assert group_advantages([2.0, 1.0, 0.0]).advantages == pytest.approx([1.224743, 0.0, -1.224743], abs=1e-6)


def test_equal_rewards_may_teach_per_turn_and_only_equal_advantages_are_dead() -> None:
    early, late = [1.0, 0.0], [1.0, 1.0]  # R = 1 both: the same reward, earned in turn 0 and in turn 1
    assert group_advantages([1.0, 1.0]).dead
    group = turn_advantages([early, late], [1.0, 1.0], std=False)
    assert not group.dead and [list(turns) for turns in group.turns] == [[0.0, -0.5], [0.0, 0.5]]
    same = turn_advantages([early, early], [1.0, 1.0])
    assert same.dead and not same.advantages.any()
    assert turn_advantages([[1.0], [1.0 + 9e-7]], [1.0, 1.0 + 9e-7], std=False).dead


def test_a_group_is_scored_per_turn_where_its_episodes_have_returns() -> None:
    rewards = [EpisodeReward(1.0, "", r[0], returns=tuple(r)) for r in RETURNS]
    assert score_group(rewards).turns is not None
    assert score_group([EpisodeReward(1.0, "", 1.0), EpisodeReward(1.0, "", 2.0)]).turns is None


# --- from the app's answer to the advantages, against a reference that is as slow as the text of the rules

STEP = st.tuples(st.sampled_from([-1.0, 0.0, 0.5, 2.0]), st.lists(st.sampled_from("abc"), max_size=3))
EPISODE = st.tuples(st.sampled_from([0.0, 0.5, 1.0]), st.lists(STEP, min_size=1, max_size=4))
RULES = st.builds(
    RewardRules,
    enabled=st.booleans(),
    mode=st.sampled_from(["indicator", "decision_stepwise", "env_sparse", "off"]),
    progress_weight=st.sampled_from([0.0, 0.1, 1.0]),
    beta=st.sampled_from([0.0, 0.5, 1.0]),
    event_kind=st.sampled_from(["binary", "continuous", "unique", "absolute"]),
    weights=st.sampled_from([{}, {"a": 0.5, "b": 2.0}]),
    k_limits=st.sampled_from([{}, {"a": 2, "c": 0}]),
    per_turn=st.booleans(),
    blend=st.sampled_from([Blend(), Blend(0.5, 0.3, 0.2)]),
)


def slow_step_rewards(steps: list[tuple[float, list[str]]], rules: RewardRules) -> list[float]:
    counted: dict[str, int] = {}
    found = []
    for reward, names in steps:
        progress = rules.progress_weight if reward > 0 or names else 0.0
        event = {
            "binary": 1.0 if reward > 0 else 0.0,
            "continuous": reward,
            "unique": 1.0 if names else 0.0,
            "absolute": float(len(names)),
        }[rules.event_kind]
        if (rules.weights or rules.k_limits) and rules.event_kind in ("binary", "unique"):
            event = 0.0
            for name in names:
                limit = rules.k_limits.get(name, 1)
                if limit <= 0 or counted.get(name, 0) < limit:
                    counted[name] = counted.get(name, 0) + 1
                    event += rules.weights.get(name, 1.0)
        by_mode = {"indicator": progress, "decision_stepwise": event + progress, "env_sparse": reward, "off": 0.0}
        found.append(by_mode[rules.mode] if rules.enabled else 0.0)
    return found


@settings(max_examples=150, deadline=None)
@given(st.lists(EPISODE, min_size=2, max_size=5), RULES, st.booleans())
def test_against_the_slow_reference(
    episodes: list[tuple[float, list[tuple[float, list[str]]]]], rules: RewardRules, std: bool
) -> None:
    judged = JudgeScores(0.25, 0.75)
    rewards, returns = [], []
    for outcome, steps in episodes:
        body = [step(reward, stepwise={"new_achievements": names}) for reward, names in steps]
        rewards.append(reward_of(answer(body, outcome), len(steps), rules, judged))
        earned, w = slow_step_rewards(steps, rules), rules.blend
        rest = w.event * 0.25 + w.outcome * 0.75
        returns.append([w.env * (outcome + rules.beta * sum(earned[t:])) + rest for t in range(len(steps))])
        assert rewards[-1].total == pytest.approx(returns[-1][0])
        assert sum(turn_rewards(rewards[-1], len(steps))) == pytest.approx(returns[-1][0])
    group = score_group(rewards, std)

    totals, every = [episode[0] for episode in returns], [g for episode in returns for g in episode]
    compared = every if rules.per_turn else totals
    mean = sum(compared) / len(compared)
    scale = (sum((g - mean) ** 2 for g in compared) / len(compared)) ** 0.5 + 1e-6 if std else 1.0
    expected = []
    for episode in returns:
        for t, value in enumerate(episode if rules.per_turn else episode[:1]):
            reach = [other[t] for other in returns if len(other) > t]
            baseline = sum(reach) / len(reach) if len(reach) >= 2 else mean
            expected.append((value - baseline) / scale)
    found = np.concatenate(group.turns) if rules.per_turn else group.advantages
    if not group.dead:
        assert found == pytest.approx(expected, abs=1e-6)
    spread = expected if rules.per_turn else totals
    assert group.dead == (max(spread) - min(spread) <= 1e-6)


@pytest.mark.parametrize("scale", [1e300, 1.7e308])
def test_rewards_whose_sum_overflows_have_the_advantages_of_smaller_ones(scale: float) -> None:
    group, small = group_advantages([scale, -scale, scale, 0.0]), group_advantages([1.0, -1.0, 1.0, 0.0])
    assert not group.dead and group.advantages == pytest.approx(small.advantages, rel=1e-5)
    assert group.mean == pytest.approx(scale / 4) and np.isfinite(group.std)
    assert np.isfinite(group_advantages([scale, -scale], std=False).advantages).all()
    assert group_advantages([scale, scale]).dead


@given(st.lists(st.floats(-1e6, 1e6), min_size=1, max_size=16))
def test_mean_and_std_are_numpys_bit_for_bit(values: list[float]) -> None:
    r = np.array(values)
    assert mean_and_std(r) == (r.mean(), r.std())


def test_beside_a_critic_no_group_is_dead_and_none_has_advantages() -> None:
    group = critic_advantages([EpisodeReward(1.0, "", 1.0)] * 2)
    assert (group.mean, group.std, group.dead) == (1.0, 0.0, False) and np.isnan(group.advantages).all()
