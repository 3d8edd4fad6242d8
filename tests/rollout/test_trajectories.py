from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from trainer.rollout.trajectories import TokenRecordError, assemble, differing, token_temperatures
from trainer.rollout.types import Call, Span

END = 9


def call(index: int, prompt: list[int], completion: list[int], **fields) -> Call:
    defaults = {
        "cid": "c",
        "call": index,
        "prompt_token_ids": prompt,
        "completion_token_ids": completion,
        "logprobs": [-0.5 - index] * len(completion),
        "spans": [Span(0, len(completion), 0)] if completion else [],
        "finish_reason": "stop",
        "sampling": {},
        "messages": [],
        "response": {},
    }
    return Call(**(defaults | fields))


def test_turns_that_extend_each_other_are_one_sequence():
    a = call(0, [1, 2], [3, END], spans=[Span(0, 1, 4), Span(1, 2, 5)])
    b = call(1, [1, 2, 3, END, 7, 8], [5, END], spans=[Span(0, 2, 5)])
    (branch,) = assemble([a, b]).branches
    assert branch.ids == [1, 2, 3, END, 7, 8, 5, END]
    assert branch.mask == [0, 0, 1, 1, 0, 0, 1, 1]
    assert branch.turn == [0, 0, 0, 0, 1, 1, 1, 1]
    assert branch.logp == [0, 0, -0.5, -0.5, 0, 0, -1.5, -1.5]
    assert branch.spans == [Span(2, 3, 4), Span(3, 4, 5), Span(6, 8, 5)]
    assert (branch.weight, branch.calls, branch.prefix) == (1.0, [0, 1], ["first", "clean"])


def test_each_token_has_the_temperature_of_its_own_call():
    a = call(0, [1], [2, END], sampling={"temperature": 0.5})
    unused = call(1, [1, 2, END, 3], [4], sampling={"temperature": 9.0})
    used = call(2, [1, 2, END, 3], [5], sampling={"temperature": 2.0})
    calls = [a, unused, used, call(3, [1, 2, END, 3, 5, 6], [7], sampling={"temperature": 0.5})]
    (branch,) = assemble(calls).branches
    assert branch.ids == [1, 2, END, 3, 5, 6, 7]
    assert token_temperatures(branch, calls) == [0.5, 0.5, 0.5, 2.0, 2.0, 0.5, 0.5]


def test_edited_history_forks():
    assembly = assemble([call(0, [1, 2], [3, END]), call(1, [1, 6], [5, END]), call(2, [1, 6, 5, END, 7], [4])])
    assert assembly.counts == {"clean": 1, "realign": 0, "fork": 1, "drift": 0, "orphan": 0}
    assert [b.calls for b in assembly.branches] == [[0], [1, 2]]
    assert [b.weight for b in assembly.branches] == [0.5, 0.5]
    assert [b.first_turn for b in assembly.branches] == [0, 1]


def test_parallel_calls_of_one_history_train_their_ancestor_once():
    root = call(0, [1], [2, END])
    left, right = call(1, [1, 2, END, 3], [4, END]), call(2, [1, 2, END, 5], [6, END])
    assembly = assemble([root, left, right])
    assert [b.calls for b in assembly.branches] == [[0, 1], [2]]
    assert assembly.branches[1].mask == [0, 0, 0, 0, 1, 1]


def test_a_repeat_whose_answer_was_not_used_is_an_orphan():
    a, b = call(0, [1], [2, END]), call(1, [1], [3, END])
    assembly = assemble([a, b, call(2, [1, 3, END, 7], [4])])
    assert assembly.counts["orphan"] == 1
    assert [branch.calls for branch in assembly.branches] == [[1, 2]]
    assert assembly.branches[0].turn[-1] == 1


def test_an_aborted_call_is_left_out():
    aborted = call(0, [1], [2], finish_reason="abort")
    assembly = assemble([aborted, call(1, [1], [3, END])])
    assert ([b.calls for b in assembly.branches], assembly.counts["orphan"]) == ([[1]], 1)


def test_a_realigned_call_goes_on_with_the_recorded_ids_and_counts_its_drift():
    calls = [call(0, [1], [2, 3, END]), call(1, [1, 2, 3, END, 7], [5, END], prefix="realign", drift=2)]
    assembly = assemble([*calls, call(2, [1, 2, 3, END, 7, 5, END, 8], [4])])
    (branch,) = assembly.branches
    assert branch.ids == [1, 2, 3, END, 7, 5, END, 8, 4] and branch.prefix == ["first", "realign", "clean"]
    assert assembly.counts == {"clean": 1, "realign": 1, "fork": 0, "drift": 2, "orphan": 0}


def test_ids_that_the_engine_did_not_read_are_never_trained_on():
    """The same messages in other ids: the gateway would have joined them if the text were the same."""
    messages = [{"role": "user", "content": "q"}]
    answer = {"role": "assistant", "content": "abc"}
    a = call(0, [1], [2, 3, END], messages=messages, response=answer)
    b = call(1, [1, 34, END, 7], [5], messages=[*messages, answer, messages[0]], prefix="fork")
    assert [branch.ids for branch in assemble([a, b]).branches] == [[1, 2, 3, END], [1, 34, END, 7, 5]]


def test_of_several_histories_the_longest_goes_on():
    """The first prompt asked again, with the same answer as before, must not cut the chat off from its second turn."""
    calls = [call(0, [1], [2, END]), call(1, [1, 2, END, 3], [4, END]), call(2, [1], [2, END])]
    assembly = assemble([*calls, call(3, [1, 2, END, 3, 4, END, 5], [6])])
    assert [branch.calls for branch in assembly.branches] == [[0, 1, 3]] and assembly.counts["orphan"] == 1


@pytest.mark.parametrize(
    ("a", "b", "count"),
    [([], [], 0), ([1, 2], [1, 2], 0), ([1, 2, 3], [1, 9, 9, 3], 2), ([1], [1, 1], 1), ([5], [6], 1), ([], [1, 2], 2)],
)
def test_drift_is_what_lies_between_the_common_ends(a, b, count):
    assert differing(a, b) == differing(b, a) == count


@pytest.mark.parametrize(
    ("fields", "code", "at"),
    [
        ({"logprobs": [-1.0]}, "length_mismatch", 1),
        ({"logprobs": []}, "no_logprobs", 0),
        ({"logprobs": [-1.0, float("nan")]}, "logprob_not_finite", 1),
        ({"logprobs": [float("-inf"), -1.0]}, "logprob_not_finite", 0),
        ({"logprobs": [0.1, -1.0]}, "logprob_not_finite", 0),
        ({"spans": [Span(0, 1, 0)]}, "span_gap", 1),
        ({"spans": [Span(1, 2, 0)]}, "span_gap", 0),
        ({"spans": [Span(0, 2, -1)]}, "version_unknown", 0),
    ],
)
def test_a_broken_record_is_named(fields, code, at):
    with pytest.raises(TokenRecordError) as error:
        assemble([call(0, [1], [2, END], **fields)])
    assert (error.value.code, error.value.at) == (code, at)


def test_nothing_sampled_is_an_error():
    for calls in ([], [call(0, [1], [], finish_reason="abort")]):
        with pytest.raises(TokenRecordError) as error:
            assemble(calls)
        assert error.value.code == "no_trained_token"


@given(st.data())
def test_every_sampled_token_is_trained_exactly_once(data):
    """Random conversation trees: extensions of any earlier call, or new histories."""
    calls: list[Call] = []
    for i in range(data.draw(st.integers(1, 7))):
        parent = data.draw(st.sampled_from([None, *range(i)])) if i else None
        fresh = [100 + i, *data.draw(st.lists(st.integers(0, 3), max_size=3))]
        history = [] if parent is None else calls[parent].prompt_token_ids + calls[parent].completion_token_ids
        completion = [200 + i, *data.draw(st.lists(st.integers(0, 3), max_size=3))]
        calls.append(call(i, history + fresh, completion))
    branches = assemble(calls).branches
    assert sum(b.weight for b in branches) == pytest.approx(1)
    trained = []
    for b in branches:
        assert len(b.ids) == len(b.mask) == len(b.turn) == len(b.logp)
        covered = [p for s in b.spans for p in range(s.start, s.end)]
        assert covered == [p for p, m in enumerate(b.mask) if m]
        trained += [t for t, m in zip(b.ids, b.mask, strict=True) if m]
    assert sorted(trained) == sorted(t for c in calls for t in c.completion_token_ids)
