"""How recorded calls become the turns of a text line."""

from trainer.rewards.episode import reward_of
from trainer.rewards.rules import OUTCOME_ALONE, RewardRules
from trainer.rollout.episode import Assignment, Episode
from trainer.rollout.trajectories import assemble
from trainer.rollout.transcript import episode_record, turn_records
from trainer.rollout.types import Call, Span
from trainer.taskapp.parse import parse_rollout

USER = {"role": "user", "content": "q"}


def call(index: int, prompt: list[int], completion: list[int], **fields) -> Call:
    defaults = {
        "cid": "c",
        "call": index,
        "prompt_token_ids": prompt,
        "completion_token_ids": completion,
        "logprobs": [-0.5] * len(completion),
        "spans": [Span(0, len(completion), 0)],
        "finish_reason": "stop",
        "sampling": {},
        "messages": [USER],
        "response": {"role": "assistant", "content": f"a{index}"},
    }
    return Call(**(defaults | fields))


def episode(calls: list[Call], rewards: list[float] | None = None, **fields) -> Episode:
    steps = [{"reward": reward, "done": False} for reward in rewards or []]
    parsed = None
    if rewards is not None:
        body = {"run_id": "c", "trajectories": [{"steps": steps}], "metrics": {"outcome_reward": 1.0}}
        parsed = parse_rollout(body, cid="c")
    made = Episode(Assignment("train", 1, 0, 0, 5), "c", [], calls=calls, parsed=parsed, **fields)
    assembly = assemble(calls)
    made.branches, made.token_counts = assembly.branches, assembly.counts
    return made


def test_only_new_messages_are_kept_and_spans_point_into_the_block():
    first = call(0, [1], [2, 9])
    history = [USER, first.response, {"role": "user", "content": "more"}]
    second = call(1, [1, 2, 9, 7], [4], messages=history)
    one, two = turn_records(episode([first, second], [0.25, 0.5]))
    assert [m["text"] for m in one.messages] == ["q", "a0"]
    assert [m["text"] for m in two.messages] == ["more", "a1"]
    assert (one.span, two.span) == ([1, 3], [4, 5])
    assert (one.reward, two.reward) == (0.25, 0.5)


def test_an_orphan_is_listed_under_the_turn_that_replaced_it():
    """The turns are numbered as in the token arrays, so rewards and spans stay with their own answer."""
    unused, used = call(0, [1], [2, 9]), call(1, [1], [3, 9])
    history = [USER, used.response, {"role": "user", "content": "more"}]
    last = call(2, [1, 3, 9, 7], [4], messages=history)
    made = episode([unused, used, last], [0.25, 0.5])
    turns = turn_records(made)
    assert [(turn.t, turn.calls, turn.reward) for turn in turns] == [(0, [0, 1], 0.25), (1, [2], 0.5)]
    (branch,) = made.branches
    for turn in turns:
        start, end = turn.span
        assert branch.ids[start:end] == made.calls[turn.calls[-1]].completion_token_ids
        assert set(branch.turn[start:end]) == {turn.t}


def test_turns_of_a_fork_point_into_their_own_branches():
    made = episode([call(0, [1, 2], [3, 9]), call(1, [1, 6], [5, 9])])
    assert [(turn.t, turn.branch, turn.span) for turn in turn_records(made)] == [(0, 0, [2, 4]), (1, 1, [2, 4])]


def test_calls_of_an_excluded_episode_are_turns_without_tokens():
    made = episode([call(0, [1], [2, 9])])
    made.branches = []
    (turn,) = turn_records(made)
    assert (turn.calls, turn.branch, turn.span) == ([0], None, None)


def test_what_a_model_thought_is_kept_as_reasoning():
    answer = {"role": "assistant", "content": "a", "reasoning_content": "because"}
    (turn,) = turn_records(episode([call(0, [1], [2], response=answer)]))
    assert turn.messages[-1] == {"role": "assistant", "text": "a", "reasoning": "because"}


def test_the_record_names_the_try_of_its_cid():
    record = episode_record(episode([call(0, [1], [2])], number=3), step=1, temperature=1.0, max_tokens=5)
    assert record.try_ == 3


def test_turns_have_what_they_earned_and_none_where_the_steps_do_not_match():
    calls = [call(0, [1], [2, 9]), call(1, [1, 2, 9, 7], [4])]
    rules = RewardRules(enabled=True, mode="decision_stepwise", beta=0.5)
    made = episode(calls, [0.25, 0.0])
    made.parsed.steps[0].info = {"stepwise": {"new_achievements": ["found"]}}
    made.reward = reward_of(made.parsed, made.turns, rules)
    assert [(turn.achievements, turn.event_reward, turn.step_r) for turn in turn_records(made)] == [
        (["found"], 1.0, 1.1),
        (None, 0.0, 0.0),
    ]
    record = episode_record(made, step=1, temperature=1.0, max_tokens=5)
    assert (record.R, record.sr, record.rewards["beta"]) == (1.55, 1.1, 0.5)
    made.reward = reward_of(made.parsed, made.turns, OUTCOME_ALONE)
    assert [(turn.reward, turn.step_r) for turn in turn_records(made)] == [(0.25, None), (0.0, None)]
    other = episode(calls, [0.25, 0.0, 0.5])
    other.reward = reward_of(other.parsed, other.turns, rules)
    assert [(turn.reward, turn.step_r) for turn in turn_records(other)] == [(None, None), (None, None)]
    assert other.reward.record()["steps"] == [1.1, 0.0, 1.1]


def test_times_add_up_and_the_answer_of_the_app_is_told():
    calls = [call(0, [1], [2, 9], t_queued=1.0, t_start=2.0, t_end=5.0, held_s=1.5)]
    made = episode(calls, [1.0], started=0.5, ended=8.5)
    made.parsed.status, made.parsed.body_bytes, made.parsed.extra = 200, 77, {"build": 3}
    record = episode_record(made, step=1, temperature=1.0, max_tokens=5)
    expected = {"queue": 1.0, "generate": 1.5, "wait_for_sync": 1.5, "judge": 0.0, "app": 4.0, "total": 8.0}
    assert record.timings == expected
    metrics = {"outcome_reward": 1.0}
    assert record.app == {"status": 200, "body_bytes": 77, "metrics": metrics, "extra": {"build": 3}}


def test_an_aborted_call_has_no_time_of_what_it_never_reached():
    """One that gave no token, and one that never left the queue."""
    begun = call(0, [1], [2], t_queued=101.0, t_start=102.0, t_end=105.0)
    calls = [begun, call(1, [3], [4], t_queued=105.0, t_end=106.0)]
    made = episode(calls, [1.0], started=100.0, ended=107.0)
    record = episode_record(made, step=1, temperature=1.0, max_tokens=5)
    assert [(turn.t_start, turn.t_first) for turn in record.turns] == [(102.0, None), (None, None)]
    assert (record.timings["queue"], record.timings["generate"], record.timings["app"]) == (2.0, 3.0, 2.0)
