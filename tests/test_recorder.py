"""What the recorder counts, over a real run directory."""

import time
from types import SimpleNamespace

import pytest

from tests.sim.world import config
from trainer.learner.protocol import StepResult
from trainer.recorder import Recorder
from trainer.rewards.advantages import group_advantages
from trainer.rewards.episode import EpisodeReward
from trainer.rollout.episode import Assignment, Episode, Exclusion
from trainer.rollout.groups import Group, Tally
from trainer.rollout.types import Call, Span
from trainer.rundir import RunReader, RunWriter
from trainer.rundir.status import Warned

RULES = SimpleNamespace(temperature=1.0, max_tokens=8)


@pytest.fixture
def recorder(tmp_path):
    with RunWriter(tmp_path / "run", job_id="rl_0", label="x") as writer:
        yield recorder_on(writer)


def recorder_on(writer) -> Recorder:
    sizes = {"rollout__episodes_per_batch": 4, "training__batch_size": 4, "training__iterations_per_epoch": 2}
    loaded = config(**sizes, training__max_minutes=2.0, training__group_size=4)
    return Recorder(writer, loaded.derived, loaded.config)


def episode(group: int | None, member: int, tokens: int, code: str | None = None) -> Episode:
    split = "eval" if group is None else "train"
    played = Episode(Assignment(split, 1, group, member, 7), f"c-{group}-{member}", [])
    logprobs = [-1.0] * tokens
    spans = [Span(0, tokens, 0)]
    played.calls = [Call("c", 0, [1], [2] * tokens, logprobs, spans, "stop", {"temperature": 1.0}, [], {})]
    if code is None:
        played.reward = EpisodeReward(float(member), "metrics.outcome_reward", float(member))
    else:
        played.exclusion = Exclusion(code, {"limit_s": 1.0})
    return played


def test_what_a_resume_plays_again_is_in_no_count_of_a_checkpoint(recorder):
    closed, begun = [episode(0, m, 10) for m in range(2)], episode(1, 0, 1000)
    lost, lost_again = episode(0, 1, 5, "timeout"), episode(1, 1, 500, "timeout")
    for played in [lost, *closed, begun, lost_again, episode(None, 0, 3)]:
        recorder.episode(played, RULES)
    assert recorder.sampled_tokens == 1528 and recorder.excluded == {"timeout": 2}
    group = Group(0, 7, closed)
    group.advantages = group_advantages([m.total for m in closed])
    recorder.group(group, 1)
    assert recorder.settled() == (28, {"timeout": 1})  # its own, and the evaluation's


def test_an_iteration_says_how_many_of_its_groups_taught_nothing(recorder):
    def closed(number, members):
        group = Group(number, 7, [episode(number, m, 4) for m in members])
        group.advantages = group_advantages([m.total for m in group.members])
        return group

    recorder.iteration_done(1, [closed(0, (0, 1)), closed(1, (1, 1))], Tally())
    recorder.iteration_done(2, [closed(2, (0, 1)), closed(3, (1, 0))], Tally())
    events = RunReader(recorder.writer.paths.root).events()
    assert [e["message"] for e in events if e["type"] == "rl.iteration.complete"] == [
        "iteration 1: reward 0.750; 1 of 2 groups have equal rewards: no gradient",
        "iteration 2: reward 0.500",
    ]


def test_the_status_says_what_is_left_of_the_time_whatever_the_wall_clock_does(tmp_path, monkeypatch):
    now = [50.0]
    monkeypatch.setattr(time, "monotonic", lambda: now[0])
    monkeypatch.setattr(time, "time", lambda: 1e9)
    with RunWriter(tmp_path / "run", job_id="rl_0", label="x") as writer:
        recorder, wall = recorder_on(writer), time.time()
        monkeypatch.setattr(time, "time", lambda: wall + 7200)
        now[0] += 30
        recorder.beat([], {})
        assert (recorder.budget_s, recorder.wall_s) == (90.0, 30.0)
        assert (writer.document.budget_s, writer.document.elapsed_s) == (90.0, 30.0)
        now[0] += 300
        assert recorder.budget_s == 0.0


def test_who_follows_the_events_alone_has_the_numbers_that_are_drawn(recorder):
    recorder.metrics({"gspo/loss": 0.25, "reward/mean": 1.0, "time/step": 3.0}, iteration=1)
    recorder.metrics({"eval/reward_mean": 0.5}, iteration=1, eval_step=4)
    recorder.close_trackers()
    (event,) = [e for e in RunReader(recorder.writer.paths.root).events() if e["type"] == "rl.metrics"]
    found = [(point["name"], point["value"], point["step"]) for point in event["data"]["points"]]
    assert found == [("gspo/loss", 0.25, 0), ("reward/mean", 1.0, 0), ("eval/reward_mean", 0.5, 4)]


def test_what_is_unhealthy_is_told_once_and_stands_in_the_status_while_it_holds(recorder):
    def learned(step, **values):
        update, lags = SimpleNamespace(members=[], sequences=[]), SimpleNamespace(max=0)
        result = StepResult(step, {"optim/grad_norm": 1.0}, [])
        recorder.step_done(
            result, update, {"reward/frac_zero_std": 0.0, **values}, iteration=step, lags=lags, seconds=1
        )

    recorder.warn("task_app", "something else")
    learned(1, **{"reward/frac_zero_std": 1.0, "reward/frac_all_bad": 1.0})
    learned(2, **{"reward/frac_zero_std": 1.0, "reward/frac_all_good": 1.0})
    [event] = [e for e in RunReader(recorder.writer.paths.root).events() if e["type"] == "rl.health"]
    assert (event["level"], event["step"], event["data"]["rule"], event["data"]["value"]) == ("warning", 1, "D01", 1.0)
    assert event["data"]["advice"] in event["message"] and event["message"].startswith("D01: ")
    [other, entry] = recorder.writer.document.warnings
    assert (other.code, entry.code, entry.count) == ("task_app", "D01", 2)
    assert "choose easier tasks" in event["message"] and "choose harder tasks" in entry.text  # as it is now
    for step in (3, 4, 5):
        learned(step)
    assert [w.code for w in recorder.writer.document.warnings] == ["task_app"]


def test_a_new_attempt_begins_without_what_the_earlier_one_said_of_its_steps(recorder):
    codes = {"D01": "D01: equal rewards", "task_app": "something else"}
    recorder.writer.note(warnings=[Warned(code=code, text=text) for code, text in codes.items()])
    recorder_on(recorder.writer)
    assert [entry.code for entry in recorder.writer.document.warnings] == ["task_app"]
