"""Step rewards of one worked episode (bodies.WORKED), number by number: e = .5, -.25, 0; progress 1, 0, 1."""

from __future__ import annotations

from typing import Any

import pytest

from tests.rewards.bodies import WORKED, answer, step
from trainer.rewards.rules import RewardRules
from trainer.rewards.steps import event_values, step_rewards
from trainer.rewards.turns import read_turns

TURNS = read_turns(answer(WORKED), 3).items


@pytest.mark.parametrize(
    ("kind", "values"),
    [
        ("binary", [1.0, 0.0, 0.0]),  # e > 0
        ("continuous", [0.5, -0.25, 0.0]),  # e
        ("unique", [1.0, 0.0, 1.0]),  # something new
        ("absolute", [2.0, 1.0, 1.0]),  # change of the count
    ],
)
def test_event_kinds(kind: str, values: list[float]) -> None:
    assert event_values(TURNS, RewardRules(event_kind=kind)) == values


@pytest.mark.parametrize(
    ("weights", "limits", "values"),
    [
        ({"wood": 0.3}, {}, [0.3, 0.0, 1.0]),  # wood once; stone is not named: 1
        ({}, {"wood": 2}, [2.0, 0.0, 1.0]),  # wood twice, in one turn; the third is over the limit
        ({}, {"wood": 3}, [2.0, 1.0, 1.0]),
        ({"wood": 0.3, "stone": 0.9}, {"wood": 0}, [0.6, 0.3, 0.9]),  # no limit
        ({"wood": -1.0}, {"wood": -5}, [-2.0, -1.0, 1.0]),
    ],
)
@pytest.mark.parametrize("kind", ["binary", "unique"])
def test_per_achievement_counting_takes_the_place_of_binary_and_unique(
    kind: str, weights: dict[str, float], limits: dict[str, int], values: list[float]
) -> None:
    rules = RewardRules(event_kind=kind, weights=weights, k_limits=limits)
    assert event_values(TURNS, rules) == pytest.approx(values)


@pytest.mark.parametrize(("kind", "values"), [("continuous", [0.5, -0.25, 0.0]), ("absolute", [2.0, 1.0, 1.0])])
def test_the_tables_leave_the_other_kinds_alone(kind: str, values: list[float]) -> None:
    assert event_values(TURNS, RewardRules(event_kind=kind, weights={"wood": 0.3})) == values


def test_new_achievements_without_a_name_weigh_one_each() -> None:
    turns = read_turns(answer([step(meta={"decision_rewards": {"unique_delta": 2}})]), 1).items
    assert event_values(turns, RewardRules(weights={"wood": 0.3})) == [2.0]


@pytest.mark.parametrize(
    ("rules", "values"),
    [
        ({"mode": "indicator"}, [0.1, 0.0, 0.1]),
        ({"mode": "indicator", "progress_weight": 0.5}, [0.5, 0.0, 0.5]),
        ({"mode": "decision_stepwise", "event_kind": "binary"}, [1.1, 0.0, 0.1]),
        ({"mode": "decision_stepwise", "event_kind": "continuous"}, [0.6, -0.25, 0.1]),
        ({"mode": "decision_stepwise", "event_kind": "unique"}, [1.1, 0.0, 1.1]),
        ({"mode": "decision_stepwise", "event_kind": "absolute"}, [2.1, 1.0, 1.1]),
        ({"mode": "decision_stepwise", "weights": {"wood": 0.3}, "k_limits": {"wood": 2}}, [0.7, 0.0, 1.1]),
        ({"mode": "decision_stepwise", "progress_weight": 0.0}, [1.0, 0.0, 0.0]),
        ({"mode": "env_sparse"}, [0.5, -0.25, 0.0]),
        ({"mode": "off"}, [0.0, 0.0, 0.0]),
    ],
)
def test_modes(rules: dict[str, Any], values: list[float]) -> None:
    assert step_rewards(TURNS, RewardRules(**rules)) == pytest.approx(values)
