"""An episode is judged alike while it is live and from the record that is left of it."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import msgspec
import pytest

from tests.rollout.test_transcript import USER, call
from tests.rollout.test_transcript import episode as live_episode
from trainer.judge.types import CriterionScore, Judgement, Review, from_record
from trainer.rollout.transcript import episode_record, turn_records
from trainer.rundir import RunReader, RunWriter

DIG = [{"id": "1", "type": "function", "function": {"name": "dig", "arguments": '{"at": 3}'}}]


def test_a_live_episode_and_its_record_are_the_same_to_a_judge(tmp_path: Path) -> None:
    first = call(0, [1], [2, 9], response={"role": "assistant", "content": None, "tool_calls": DIG})
    history = [USER, first.response, {"role": "tool", "content": "gold"}]
    second = call(1, [1, 2, 9, 7], [4], messages=history)
    live = live_episode([first, second], [0.25, 0.5])
    record = episode_record(live, step=4, temperature=1.0, max_tokens=9)
    with RunWriter(tmp_path / "run", job_id="rl_0123456789abcdef", label="test") as writer:
        n = writer.episode(record)
    recorded = from_record(RunReader(tmp_path / "run").episode(n))

    turns = msgspec.to_builtins(turn_records(live))
    now = from_record({"cid": "c", "seed": 5, "iteration": 1, "step": 4, "O": 1.0, "turns": turns})
    assert recorded.n == 0 and now.n is None
    now.n = 0
    assert recorded == now
    assert now.turns[0].tool_calls == [{"name": "dig", "arguments": '{"at": 3}'}] and now.turns[0].answer == ""
    assert now.final_text == "a1" and [turn.reward for turn in now.turns] == [0.25, 0.5] and now.env_reward == 1.0


@pytest.mark.parametrize(
    "line",
    [
        {},
        {"turns": 3, "O": "1", "n": None, "cid": None},
        {"turns": [None, {"messages": [None, {"text": ["head", {"cut": 9}, "tail"], "tool_calls": 3}]}, {"t": "x"}]},
        {"turns": [{"messages": [{"role": "assistant", "tool_calls": [3, {"function": {"name": None}}]}]}]},
    ],
)
def test_nothing_in_a_record_is_trusted(line: dict[str, Any]) -> None:
    read = from_record(line)
    assert read.env_reward is None and all(turn.tool_calls is not None for turn in read.turns)
    assert isinstance(read.final_text, str)


def test_what_is_recorded_of_a_judgement_is_that_of_the_wire() -> None:
    review = Review(total=0.5, criteria={"a.b": CriterionScore(0.5, "so")}, tracks={"a": 0.5})
    turns = [Review(total=t, tracks={"a": 0.0, "c": t}, turn=t) for t in (0, 1)]
    given = Judgement(outcome=0.5, outcome_review=review, event_reviews=turns, calls=[0, 200])
    assert given.tracks == {"a": 0.5, "c": 0.5}
    record = given.record()
    assert record["event"][0] == {"turn": 0, "total": 0.0, "criteria": {}, "tracks": {"a": 0.0, "c": 0.0}}
    assert record["outcome"] == {
        "total": 0.5,
        "criteria": {"a.b": {"score": 0.5, "reason": "so"}},
        "tracks": {"a": 0.5},
    }
    assert record["calls"] == [0, 200]
