"""Stop reasons, transcripts and iteration numbers: pure rules over recorded calls."""

import numpy as np
import pytest

from trainer.rewards.advantages import group_advantages
from trainer.rewards.episode import EpisodeReward, JudgeScores
from trainer.rollout.episode import Assignment, Episode, stop_reason
from trainer.rollout.groups import Group, Tally
from trainer.rollout.measures import evaluation_metrics, iteration_metrics
from trainer.rollout.transcript import episode_record
from trainer.rollout.types import Branch, Call, Span
from trainer.taskapp.parse import parse_rollout


def call(index=0, finish="stop", messages=None, reply="4", tokens=(5, 6)):
    return Call(
        cid="c",
        call=index,
        prompt_token_ids=[1, 2],
        completion_token_ids=list(tokens),
        logprobs=[-0.5] * len(tokens),
        spans=[Span(0, len(tokens), 3)],
        finish_reason=finish,
        sampling={"temperature": 1.0},
        messages=messages or [{"role": "user", "content": "2 + 2?"}],
        response={"role": "assistant", "content": reply},
    )


def parsed(**last):
    step = {"obs": {}, "tool_calls": [], "reward": 1.0, "done": True, **last}
    return parse_rollout({"trajectories": [{"steps": [step]}], "metrics": {"outcome_reward": 1.0}}, cid="c")


@pytest.mark.parametrize(
    ("calls", "errors", "answer", "exclusion", "max_turns", "expected"),
    [
        ([call()], [], parsed(), None, 1, "completed"),
        ([call(finish="length")], [], parsed(), None, 1, "max_tokens"),
        ([call(finish="length")], ["context_length_exceeded"], parsed(), None, 1, "context_overflow"),
        ([call()], ["call_limit", "context_length_exceeded"], parsed(), None, 1, "call_limit"),
        ([call(0), call(1)], [], parsed(done=False), None, 2, "max_turns"),
        ([call(0), call(1)], [], parsed(done=True), None, 2, "completed"),
        ([call()], [], parsed(truncated=True, done=False), None, 4, "max_turns"),
        ([call()], [], None, "timeout", 1, "timeout"),
        ([call(finish="abort")], [], parsed(), "call_aborted", 1, "aborted"),
        ([], [], None, "http_error", 1, "aborted"),
    ],
)
def test_the_first_stop_reason_that_holds(calls, errors, answer, exclusion, max_turns, expected):
    assert stop_reason(calls, errors, answer, exclusion=exclusion, max_turns=max_turns) == expected


def episode(reward, *, member=0, seed=0, calls=None, iteration=1):
    assignment = Assignment("train", iteration, seed, member, seed)
    made = Episode(assignment, f"cid-{seed}-{member}", [], calls=calls or [call()], n=member)
    made.branches = [
        Branch([1, 2, 5, 6], [0, 0, 1, 1], [i] * 4, [0, 0, -0.5, -0.5], [Span(2, 4, 3)], 1.0, i, [i], ["first"])
        for i in range(len(made.calls))
    ]
    made.parsed = parsed()
    made.reward = None if reward is None else EpisodeReward(reward, "metrics.outcome_reward", reward)
    return made


def test_a_transcript_holds_only_what_each_turn_added():
    first = [{"role": "user", "content": "guess"}]
    second = [*first, {"role": "assistant", "content": "4"}, {"role": "user", "content": "higher"}]
    played = episode(1.0, calls=[call(0, messages=first), call(1, messages=second, reply="6")])
    record = episode_record(played, step=2, temperature=1.0, max_tokens=20)
    texts = [[(m["role"], m["text"]) for m in turn.messages] for turn in record.turns]
    assert texts == [[("user", "guess"), ("assistant", "4")], [("user", "higher"), ("assistant", "6")]]
    assert (record.turns[0].branch, record.turns[0].span) == (0, [2, 4])


def test_edited_history_is_shown_whole():
    first = [{"role": "user", "content": "guess"}]
    edited = [{"role": "user", "content": "guess, shorter history"}]
    played = episode(1.0, calls=[call(0, messages=first), call(1, messages=edited)])
    record = episode_record(played, step=2, temperature=1.0, max_tokens=20)
    assert [m["text"] for m in record.turns[1].messages] == ["guess, shorter history", "4"]


def test_iteration_numbers_by_hand():
    groups = [
        Group(0, 0, [episode(0.0), episode(1.0, member=1)]),
        Group(1, 1, [episode(1.0, seed=1), episode(1.0, seed=1, member=1)]),
        Group(2, 2, [episode(0.0, seed=2), episode(0.0, seed=2, member=1)]),
    ]
    for group in groups:
        group.advantages = group_advantages([m.total for m in group.members])
    values = iteration_metrics(groups, Tally())
    assert values["reward/mean"] == pytest.approx(0.5) and values["reward/std"] == pytest.approx(0.5)
    assert values["reward/frac_zero_std"] == pytest.approx(2 / 3)
    assert values["reward/frac_all_good"] == values["reward/frac_all_bad"] == pytest.approx(1 / 3)
    assert values["length/mean"] == 2 and values["stop/completed"] == 1


def test_the_parts_of_the_reward_are_means_of_what_the_blend_weighs():
    groups = [Group(0, 0, [episode(0.0), episode(1.0, member=1)])]
    for member, judged in zip(groups[0].members, (JudgeScores(None, 0.25), JudgeScores(None, 0.75)), strict=True):
        member.reward = EpisodeReward(1.0, "", 0.5, steps=(0.5, 0.5), beta=0.5, judged=judged)
    groups[0].advantages = group_advantages([0.5, 0.5])
    values = iteration_metrics(groups, Tally())
    assert (values["reward/env"], values["reward/outcome"], values["reward/mean"]) == (1.5, 0.5, 0.5)
    assert "reward/event" not in values


def test_an_excluded_evaluation_episode_is_counted_and_never_scored_zero():
    values = evaluation_metrics([episode(1.0), episode(None)])
    assert values["eval/reward_mean"] == 1.0
    assert (values["eval/episodes"], values["eval/excluded"]) == (1, 1)


def test_an_evaluation_without_any_reward_has_none():
    assert "eval/reward_mean" not in evaluation_metrics([episode(None)])
    assert not any(np.isnan(value) for value in evaluation_metrics([episode(None)]).values())
