"""What the recorder counts, over a real run directory."""

import time
from types import SimpleNamespace

import pytest

from tests.sim.world import config
from trainer.recorder import Recorder
from trainer.rewards.advantages import group_advantages
from trainer.rewards.episode import EpisodeReward
from trainer.rollout.episode import Assignment, Episode, Exclusion
from trainer.rollout.groups import Group, Tally
from trainer.rollout.types import Call, Span
from trainer.rundir import RunReader, RunWriter

RULES = SimpleNamespace(temperature=1.0, max_tokens=8)


@pytest.fixture
def recorder(tmp_path):
    sizes = {"rollout__episodes_per_batch": 4, "training__batch_size": 4, "training__iterations_per_epoch": 2}
    loaded = config(**sizes, training__max_minutes=2.0, training__group_size=4)
    with RunWriter(tmp_path / "run", job_id="rl_0", label="x") as writer:
        yield Recorder(writer, loaded.derived, loaded.config)


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


def test_the_status_says_what_is_left_of_the_time(recorder):
    assert 119 < recorder.budget_s <= 120
    recorder.started = time.time() - 300
    assert recorder.budget_s == 0.0
    recorder.beat([], {})
    assert recorder.writer.document.budget_s == 0.0


def test_who_follows_the_events_alone_has_the_numbers_that_are_drawn(recorder):
    recorder.metrics({"gspo/loss": 0.25, "reward/mean": 1.0, "time/step": 3.0}, iteration=1)
    recorder.metrics({"eval/reward_mean": 0.5}, iteration=1, eval_step=4)
    recorder.close_trackers()
    (event,) = [e for e in RunReader(recorder.writer.paths.root).events() if e["type"] == "rl.metrics"]
    found = [(point["name"], point["value"], point["step"]) for point in event["data"]["points"]]
    assert found == [("gspo/loss", 0.25, 0), ("reward/mean", 1.0, 0), ("eval/reward_mean", 0.5, 4)]
