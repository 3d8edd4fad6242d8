"""The judge beside the episodes: scores, failures, its numbers, and what it keeps waiting."""

import asyncio

import pytest

from tests.rollout.test_transcript import call, episode
from trainer.judge.errors import JudgeFailed
from trainer.judge.types import CriterionScore, Judgement, Review
from trainer.rewards.episode import EpisodeReward
from trainer.rewards.rules import Blend
from trainer.rollout.judging import WINDOW, Judging
from trainer.rollout.meter import Meter
from trainer.rollout.transcript import episode_record
from trainer.taskapp.errors import RolloutFailure

BLEND = Blend(0.5, 0.25, 0.25)


class Says:
    """A judge that gives what it is told to; `seen` is what it was shown."""

    def __init__(self, *given) -> None:
        self.given, self.seen = list(given), []

    async def judge(self, shown):
        self.seen.append(shown)
        given = self.given[len(self.seen) - 1]
        if isinstance(given, Exception):
            raise given
        return given


def judgement(event: float, outcome: float, **fields) -> Judgement:
    reviews = [Review(total=event, criteria={"a": CriterionScore(event)}, tracks={"default": event}, turn=0)]
    whole = Review(total=outcome, criteria={"b.c": CriterionScore(outcome)}, tracks={"b": outcome})
    return Judgement(event=event, outcome=outcome, event_reviews=reviews, outcome_review=whole, **fields)


def played(outcome: float = 1.0):
    made = episode([call(0, [1], [2, 9])], [0.25])
    made.parsed.outcome = outcome
    return made


def judging(*given, **fields) -> Judging:
    options = {"steps": 2, "env_name": "e", "task": {"name": "n"}, **fields}
    return Judging(Says(*given), BLEND, Meter(), **options)


def scored(made, total: float = 0.0):
    made.reward = EpisodeReward(made.parsed.outcome, "p", total, judged=made.judged)
    return made


async def test_the_judge_sees_the_record_that_will_be_written_and_its_scores_join_it():
    made, beside = played(0.5), judging(judgement(0.25, 0.75, calls=[-1, 7]))
    await beside.judge(made)
    (seen,) = beside._judge.seen
    assert (seen.cid, seen.step, seen.iteration, seen.env_reward, seen.env_name) == ("c", 2, 1, 0.5, "e")
    assert (seen.turns[0].answer, seen.turns[0].reward, seen.task) == ("a0", 0.25, {"name": "n"})
    record = episode_record(made, step=2, temperature=1.0, max_tokens=4)
    assert (record.je, record.jo, record.turns[0].judge) == (0.25, 0.75, 0.25)
    assert record.judge["calls"] == [7]  # the other line waits for room on the disk: it has no place yet
    assert record.judge["tracks"] == {"default": 0.25, "b": 0.75}
    assert record.timings["judge"] == made.judge_s


async def test_no_score_is_a_failure_of_the_episode_with_its_cause():
    made, beside = played(), judging(JudgeFailed("judge_unparsable", "it wrote prose", "Well, well"))
    with pytest.raises(RolloutFailure) as raised:
        await beside.judge(made)
    failure = raised.value
    assert (failure.code, failure.retryable, failure.evidence) == ("judge_failed", False, "Well, well")
    assert failure.detail == {"cause": "it wrote prose", "code": "judge_unparsable"}
    assert str(failure) == "the judge gave no score: it wrote prose"
    assert made.judgement is None and beside.closing([])["judge/failed"] == 1.0
    assert beside.closing([]) == {"judge/failed": 0.0}


async def test_its_numbers_are_of_the_batch_and_the_agreement_of_a_window_that_a_checkpoint_keeps():
    outcomes = [0.1, 0.9, 0.5, 0.7]
    beside = judging(*(judgement(value, value) for value in outcomes), pairs=[(0.0, 1.0)] * (WINDOW - 2))
    batch = [played(value) for value in outcomes]
    for made in batch:
        await beside.judge(made)
        scored(made)
    metrics = beside.closing(batch)
    assert metrics["judge/b"] == pytest.approx(0.55) and metrics["judge/default"] == pytest.approx(0.55)
    assert metrics["judge/latency"] >= 0 and -1 <= metrics["judge/agreement"] <= 1
    pairs = beside.pairs
    assert len(pairs) == WINDOW and pairs[-4:] == [(value, value) for value in outcomes]
    later = judging(pairs=pairs)
    assert later.closing([])["judge/agreement"] == metrics["judge/agreement"]


async def test_all_that_is_in_flight_at_the_judge_is_a_wait_for_it():
    """By the clock of the loop, moved by hand."""
    meter, now = Meter(), 100.0
    loop = asyncio.get_running_loop()
    original, loop.time = loop.time, lambda: now
    try:
        meter.note(running=2, training=2, held=False, started=True)
        with meter.at_judge():
            now += 1.0  # one is being generated still
            assert meter.judge_since is None
            with meter.at_judge():
                assert (meter.judging, meter.judge_since) == (2, now)
                now += 4.0
            assert meter.judge_since is None  # before the dispatcher has heard of its end
            meter.note(running=1, training=1, held=False, started=False)
            assert meter.judge_since == now
            now += 2.0
        meter.read()
    finally:
        loop.time = original
    assert (meter.judge_s, meter.judge_wait_s, meter.busy_s) == (7.0, 6.0, 1.0)
