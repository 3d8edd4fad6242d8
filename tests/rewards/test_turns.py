"""Which steps belong to which model call."""

from __future__ import annotations

import pytest

from tests.rewards.bodies import answer, step
from trainer.rewards.turns import read_turns


def rewards(parsed, calls: int) -> list[float] | None:
    """e_t of each turn; None where the steps do not match."""
    turns = read_turns(parsed, calls)
    return [turn.reward for turn in turns.items] if turns.matched else None


def test_as_many_steps_as_calls_are_the_turns() -> None:
    assert rewards(answer([step(0.5), step(-1.0)]), 2) == [0.5, -1.0]


@pytest.mark.parametrize("first", [0, 1])
def test_steps_of_one_decision_are_one_turn_counted_from_0_or_1(first: int) -> None:
    steps = [step(0.5, decision=first), step(0.25, decision=first), step(1.0, decision=first + 2)]
    assert rewards(answer(steps), 3) == [0.75, 0.0, 1.0]  # the call in between caused no step


@pytest.mark.parametrize("place", ["stepwise", "meta"])
def test_the_decision_may_stand_in_the_info(place: str) -> None:
    steps = [step(0.5, **{place: {"decision_index": n}}) for n in (0, 0, 1)]
    assert rewards(answer(steps), 2) == [1.0, 0.5]


def test_a_decision_beyond_the_calls_matches_nothing() -> None:
    assert rewards(answer([step(0.5, decision=0), step(0.5, decision=5), step(0.5, decision=1)]), 2) is None


def test_event_rewards_of_one_a_call_stand_for_steps_that_do_not_match() -> None:
    assert rewards(answer([step(None)] * 5, event_rewards=[0.5, 0.25]), 2) == [0.5, 0.25]
    assert rewards(answer([], event_rewards=[0.5, 0.25]), 2) == [0.5, 0.25]


def test_event_rewards_of_one_a_step_follow_the_decisions_of_the_steps() -> None:
    steps = [step(None, decision=0), step(None, decision=0), step(None, decision=1)]
    assert rewards(answer(steps, event_rewards=[0.5, 0.25, 1.0]), 2) == [0.75, 1.0]


def test_event_rewards_do_not_hide_unlocks_that_match_no_call() -> None:
    steps = [step(None, stepwise={"new_achievements": ["a"]})] * 3
    turns = read_turns(answer(steps, event_rewards=[0.5, 0.25]), 2)
    assert not turns.matched and sum(turn.reward for turn in turns.items) == 0.75


@pytest.mark.parametrize("calls", [1, 3])
def test_what_matches_nothing_keeps_its_sum(calls: int) -> None:
    turns = read_turns(answer([step(0.5), step(0.25)]), calls)
    assert not turns.matched and [turn.reward for turn in turns.items] == [0.5, 0.25]


def test_an_app_without_steps_matches_nothing() -> None:
    turns = read_turns(answer([]), 2)
    assert not turns.matched and turns.items == ()


def test_decision_samples_bring_achievements_that_no_step_has() -> None:
    samples = [{"decision_index": 1, "new_achievements": ["a"]}, {"decision_index": 0, "unique_delta": 2}]
    turns = read_turns(answer([step(0.5), step(0.0)], samples=samples), 2)
    assert [(turn.unlocks.new, turn.unlocks.unnamed) for turn in turns.items] == [((), 2), (("a",), 0)]
    steps = [step(0.5, stepwise={"new_achievements": ["b"]}), step(0.0)]
    assert read_turns(answer(steps, samples=samples), 2).items[1].unlocks.new == ()


def test_a_turn_is_done_or_cut_when_one_of_its_steps_is() -> None:
    steps = [step(decision=0), {**step(decision=0), "done": True}, {**step(decision=1), "truncated": True}]
    ended = [(turn.done, turn.truncated) for turn in read_turns(answer(steps), 2).items]
    assert ended == [(True, False), (False, True)]
