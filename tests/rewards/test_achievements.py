"""Where unlocked achievements are read, and what hostile reports of them do."""

from __future__ import annotations

from typing import Any

import pytest

from tests.rewards.bodies import answer, step
from trainer.rewards.achievements import Unlocks, together, unlocks_of_steps


def unlocks(*infos: dict[str, Any]) -> list[tuple[tuple[str, ...], dict[str, int], float]]:
    found = unlocks_of_steps(answer([step(**info) for info in infos]).steps)
    return [(item.new, dict(item.counts), item.delta) for item in found]


def test_new_achievements_of_stepwise() -> None:
    first, second = {"stepwise": {"new_achievements": ["a", "b"]}}, {"stepwise": {"new_achievements": []}}
    assert unlocks(first, second) == [(("a", "b"), {"a": 1, "b": 1}, 2.0), ((), {}, 0.0)]


def test_decision_rewards_by_name_and_by_number() -> None:
    named = {"meta": {"decision_rewards": {"unique": ["a"], "all": ["a", "b", "b"]}}}
    assert unlocks(named) == [(("a",), {"a": 1, "b": 2}, 3.0)]
    [numbers] = unlocks_of_steps(answer([step(meta={"decision_rewards": {"unique_delta": 2, "ach_delta": 5}})]).steps)
    assert (numbers.new, numbers.unnamed, numbers.delta, numbers.any_new) == ((), 2, 5.0, True)


def test_changes_of_the_status_as_flags_and_as_counts() -> None:
    flags = [{"achievements_status": status} for status in ({"a": False}, {"a": True, "b": False}, {"a": True})]
    assert unlocks(*flags) == [((), {}, 0.0), (("a",), {"a": 1}, 1.0), ((), {}, 0.0)]
    counts = [{"achievements_status": {"a": n}} for n in (2, 1, 4)]
    assert unlocks(*counts) == [(("a",), {"a": 2}, 2.0), ((), {}, -1.0), ((), {"a": 2}, 3.0)]


def test_one_source_for_the_whole_episode_so_that_nothing_counts_twice() -> None:
    first = {"stepwise": {"new_achievements": ["a"]}, "achievements_status": {"a": True}}
    assert unlocks(first, {"achievements_status": {"a": True, "b": True}}) == [(("a",), {"a": 1}, 1.0), ((), {}, 0.0)]


@pytest.mark.parametrize(
    "info",
    [
        {"stepwise": {"new_achievements": "all of them"}},
        {"stepwise": {"new_achievements": [1, None, {"a": 1}]}},
        {"meta": {"decision_rewards": {"unique": {"a": 1}, "unique_delta": -3, "ach_delta": "many"}}},
        {"achievements_status": {"a": "yes", "b": None, "c": [1]}},
        {"achievements_status": [True]},
        {"stepwise": None, "meta": 7},
    ],
)
def test_what_is_no_report_unlocks_nothing(info: dict[str, Any]) -> None:
    assert unlocks(info) == [((), {}, 0.0)]


def test_a_count_beyond_reason_stays_a_number() -> None:
    [(new, counts, delta)] = unlocks({"achievements_status": {"a": 1e300}})
    assert (new, counts, delta) == (("a",), {"a": 1_000_000}, 1e300)


def test_steps_of_a_turn_add_up() -> None:
    parts = [Unlocks(("a",), 1, {"a": 1}, 2.0), Unlocks(("b", "a"), 0, {"a": 2, "b": 1}, -1.0)]
    assert together(parts) == Unlocks(("a", "b"), 1, {"a": 3, "b": 1}, 1.0)
