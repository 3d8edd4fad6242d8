"""The reward of one worked episode (bodies.WORKED, O = 1), number by number."""

from __future__ import annotations

from typing import Any

import pytest

from tests.rewards.bodies import WORKED, answer, step
from trainer.rewards.episode import JudgeScores, reward_of, turn_rewards
from trainer.rewards.rules import Blend, RewardRules
from trainer.taskapp.codes import warning
from trainer.taskapp.errors import RolloutFailure

ON = {"enabled": True}
STEPWISE = {**ON, "mode": "decision_stepwise"}
JUDGED = JudgeScores(event=0.4, outcome=0.9)
BLEND = Blend(env=0.5, event=0.3, outcome=0.2)


def made(judged: JudgeScores | None = None, **rules: Any):
    return reward_of(answer(WORKED), 3, RewardRules(**rules), *([] if judged is None else [judged]))


@pytest.mark.parametrize(
    ("rules", "total"),
    [
        ({}, 1.0),  # O
        (ON, 1.2),  # 1 + .1 + 0 + .1
        (STEPWISE, 2.2),  # 1 + 1.1 + 0 + .1
        ({**STEPWISE, "event_kind": "continuous"}, 1.45),  # 1 + .6 - .25 + .1
        ({**STEPWISE, "event_kind": "unique"}, 3.2),  # 1 + 1.1 + 0 + 1.1
        ({**STEPWISE, "event_kind": "absolute"}, 5.2),  # 1 + 2.1 + 1 + 1.1
        ({**STEPWISE, "weights": {"wood": 0.3}, "k_limits": {"wood": 2}}, 2.8),  # 1 + .7 + 0 + 1.1
        ({**ON, "mode": "env_sparse"}, 1.25),  # 1 + .5 - .25 + 0
        ({**ON, "mode": "off"}, 1.0),
        ({**STEPWISE, "beta": 0.5}, 1.6),  # 1 + .5 (1.1 + 0 + .1)
        ({**STEPWISE, "beta": 0.0}, 1.0),
    ],
)
def test_without_a_judge(rules: dict[str, Any], total: float) -> None:
    assert made(**rules).total == pytest.approx(total)


def test_blended_with_a_judge() -> None:
    reward = made(JUDGED, **STEPWISE, beta=0.5, blend=BLEND)
    assert reward.total == pytest.approx(0.5 * (1 + 0.5 * 1.2) + 0.3 * 0.4 + 0.2 * 0.9)  # .8 + .12 + .18 = 1.1
    assert reward.env == pytest.approx(1.6)
    assert reward.record() == {
        "O": 1.0,
        "O_path": "metrics.outcome_reward",
        "steps": pytest.approx([1.1, 0.0, 0.1]),
        "beta": 0.5,
        "event": 0.4,
        "outcome": 0.9,
        "weights": {"env": 0.5, "event": 0.3, "outcome": 0.2},
        "R": pytest.approx(1.1),
    }


def test_without_the_environment_the_steps_vanish() -> None:
    assert made(JUDGED, **STEPWISE, blend=Blend(0.0, 0.0, 1.0)).total == pytest.approx(0.9)


def test_a_missing_score_that_has_weight_is_never_taken_for_zero() -> None:
    with pytest.raises(ValueError, match="event score has weight"):
        made(JudgeScores(outcome=0.9), blend=BLEND)


def test_returns_leave_out_what_earlier_turns_earned() -> None:
    # .5 (1 + .5 (1.1 + 0 + .1)) + .3, then .5 (1 + .5 (0 + .1)) + .3, then .5 (1 + .5 .1) + .3
    assert made(JUDGED, **STEPWISE, beta=0.5, blend=BLEND, per_turn=True).returns == pytest.approx([1.1, 0.825, 0.825])
    assert made(**ON, mode="env_sparse", per_turn=True).returns == pytest.approx([1.25, 0.75, 1.0])
    assert made(per_turn=True).returns == (1.0, 1.0, 1.0)
    assert made(**STEPWISE).returns == ()


def test_turn_rewards_give_the_rest_of_the_reward_to_the_last_turn() -> None:
    # .25 x (1.1, 0, .1), and at the end .5 O + .12 + .18
    reward = made(JUDGED, **STEPWISE, beta=0.5, blend=BLEND)
    assert turn_rewards(reward, 3) == pytest.approx([0.275, 0.0, 0.825])
    assert turn_rewards(made(), 3) == [0.0, 0.0, 1.0]
    unmatched = reward_of(answer(WORKED), 2, RewardRules(**STEPWISE))
    assert turn_rewards(unmatched, 2) == pytest.approx([0.0, 2.2])


def test_steps_that_match_no_call_count_as_a_sum_or_exclude_the_episode() -> None:
    reward = reward_of(answer(WORKED), 2, RewardRules(**STEPWISE))
    assert reward.total == pytest.approx(2.2) and reward.warnings == ("turns_unmatched",)
    with pytest.raises(RolloutFailure) as caught:
        reward_of(answer(WORKED), 2, RewardRules(**STEPWISE, per_turn=True))
    assert (caught.value.code, caught.value.detail) == ("turn_mapping", {"steps": 3, "calls": 2})
    # no step term: no step is needed
    assert reward_of(answer(WORKED), 2, RewardRules(per_turn=True)).returns == (1.0, 1.0)


def test_env_sparse_with_an_outcome_that_is_the_sum_of_the_steps_is_said_with_both_numbers() -> None:
    rules = RewardRules(**ON, mode="env_sparse")
    twice = reward_of(answer([step(0.5), step(0.25)], outcome=0.75), 2, rules)
    assert (twice.total, twice.warnings) == (1.5, ("steps_count_twice",))
    said = warning("steps_count_twice", {"outcome": twice.outcome, "sum": twice.step_sum})
    assert "outcome 0.75" in said and "(0.75)" in said
    assert reward_of(answer([step(0.5), step(0.25)], outcome=1.0), 2, rules).warnings == ()
    assert reward_of(answer([step(0.0), step(0.0)], outcome=0.0), 2, rules).warnings == ()


def test_with_step_rewards_off_what_the_app_reports_is_kept_to_be_seen() -> None:
    reward = made()
    assert (reward.steps, reward.beta, reward.step_sum) == ((0.5, -0.25, 0.0), 0.0, 0.25)


def test_a_reward_that_the_learner_cannot_hold_excludes_the_episode() -> None:
    for huge in (1e308, -1e308, 1.1e18):
        with pytest.raises(RolloutFailure) as caught:
            reward_of(answer([step(0.0)], outcome=huge), 2, RewardRules())
        assert caught.value.code == "reward_not_finite" and "beyond 1e+18" in caught.value.detail["value"]
    assert reward_of(answer([step(0.0)], outcome=-1e18), 2, RewardRules()).total == -1e18


def test_a_sum_beyond_what_a_float_holds_excludes_the_episode() -> None:
    with pytest.raises(RolloutFailure) as caught:
        reward_of(answer([step(1.5e308), step(1.5e308)]), 2, RewardRules(**ON, mode="env_sparse"))
    assert caught.value.code == "reward_not_finite"
