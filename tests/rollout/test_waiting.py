"""Who waits for what since when; lags; and where the time went."""

import asyncio

import pytest

from tests.sim.virtual_time import run
from trainer.lag import Contained, Lags
from trainer.rollout.episode import Assignment, Episode
from trainer.rollout.groups import Group
from trainer.rollout.meter import Meter
from trainer.rollout.types import Branch, Span
from trainer.timing import Timing
from trainer.waiting import LearnerLimit, Wait, Waits, stall, told, unless


@pytest.mark.parametrize(
    ("age", "median", "stalls"), [(119, 1.0, False), (121, 1.0, True), (400, 100.0, False), (501, 100.0, True)]
)
def test_a_stall_is_five_median_steps_and_never_less_than_two_minutes(age, median, stalls):
    waits = [Wait("rollouts", "policy", "weights", 1000.0 - age), Wait("learner", "batch", "groups", 999.0)]
    assert (stall(waits, 1000.0, median) is waits[0]) is stalls
    assert stall([], 1000.0, median) is None


def test_a_batch_that_only_the_judge_holds_up_is_told_as_a_wait_for_the_judge():
    batch, judge = Wait("learner", "batch", "groups", 1.0), Wait("rollouts", "judge", "the scores of 4 episodes", 5.0)
    assert told([judge, batch]) is judge and told([batch]) is batch and told([]) is None
    sync = Wait("engine", "sync", "weights", 0.5)
    assert told([judge, batch, sync]) is sync  # the longest, and not for episodes


def test_a_wait_that_is_woken_for_nothing_keeps_its_beginning_and_its_seconds_add_up():
    async def main():
        waits = Waits()
        for _ in range(3):
            with waits.of("learner", "batch", "groups"):
                await asyncio.sleep(5)
        assert [wait.since for wait in waits.present] == [0.0]
        with waits.of("learner", "straggler", "an episode"):
            await asyncio.sleep(2)
        assert [(wait.what, wait.since) for wait in waits.present] == [("straggler", 15.0)]
        waits.over("learner")
        assert waits.present == [] and waits.take() == {"batch": 15.0, "straggler": 2.0} and waits.take() == {}

    run(main())


def test_the_time_of_a_step_is_the_learners_and_idle_is_what_it_did_not_learn_in():
    async def main():
        waits, meter = Waits(), Meter()
        timing = Timing(waits, meter)
        timing.begin()
        meter.note(running=3, training=2, held=False, started=True)
        with waits.of("learner", "batch", "groups"):
            await asyncio.sleep(6)
        meter.note(running=0, training=0, held=True, started=False)
        meter.tokens = 300
        with timing.learning():
            await asyncio.sleep(2)
        with waits.of("engine", "sync", "weights"), timing.working():
            await asyncio.sleep(2)
        values = timing.step(tokens=100)
        assert values["time/step"] == 10 and values["time/wait_for_batch"] == 6 and values["time/weight_sync"] == 2
        assert values["time/wait_for_policy"] == 4
        assert values["trainer/idle_ratio"] == pytest.approx(0.8)
        assert values["rollouter/idle_ratio"] == pytest.approx(0.4)
        assert values["throughput/train_tokens_per_sec"] == 50
        values = timing.iteration(episodes=5)
        assert values["throughput/gen_tokens_per_sec"] == 50 and values["throughput/samples_per_sec"] == 0.5
        assert (timing.clock.total, timing.clock.episodes, timing.clock.collecting) == (10, 5, 6)
        with timing.learning():
            await asyncio.sleep(2)
        await asyncio.sleep(6)  # records, a checkpoint: none of the learner's waits, but time of the run
        assert timing.step(tokens=100)["time/step"] == 2
        assert timing.iteration(episodes=4)["throughput/samples_per_sec"] == 0.5

    run(main())


def test_rollouts_wait_for_the_trainer_only_while_it_works():
    """Room for episodes that may not begin is nobody's loss while the trainer itself waits, or saves a checkpoint."""

    async def main():
        waits, meter = Waits(), Meter()
        timing = Timing(waits, meter)
        timing.begin()
        meter.note(running=1, training=1, held=True, started=True)  # the last episode of its batch
        with waits.of("learner", "batch", "groups"):
            await asyncio.sleep(6)
        with timing.learning():
            await asyncio.sleep(2)
        await asyncio.sleep(30)
        values = timing.step(tokens=100)
        assert (values["time/step"], values["time/wait_for_batch"], values["time/wait_for_policy"]) == (8, 6, 2)
        assert timing.step(tokens=0)["time/wait_for_policy"] == 0

    run(main())


async def test_what_is_not_needed_any_more_is_given_up():
    event, given_up = asyncio.Event(), asyncio.Event()

    async def work():
        try:
            await asyncio.sleep(3600)
        finally:
            given_up.set()

    waiting = asyncio.ensure_future(unless(event, work()))
    await asyncio.sleep(0)
    await asyncio.sleep(0)
    event.set()
    assert await waiting is None and given_up.is_set()
    assert await unless(event, asyncio.sleep(0, "never begun")) is None
    assert await unless(asyncio.Event(), asyncio.sleep(0, "done")) == "done"


def test_the_lag_of_an_episode_is_that_of_its_oldest_token():
    contained = Contained()
    contained.note(1, 4)
    contained.note(2, 8)
    spans = [[Span(0, 3, 2), Span(3, 5, 1)], [Span(0, 2, 2)]]
    member = Episode(Assignment("train", 1, 0, 0, 0), "c", [], n=7)
    member.branches = [Branch([], [], [], [], s, 0.5, 0, [], []) for s in spans]
    lags = Lags.at_close([Group(0, 0, [member])], contained, step=9, limit=5)
    assert lags.of == {7: 5} and not lags.is_past_limit(7)
    assert Lags(lags.of, 4).is_past_limit(7) and not Lags(lags.of, None).is_past_limit(7)


async def ends_after(limit: LearnerLimit, seconds: float) -> float:
    """When a work of so many seconds is over, or given up."""
    loop = asyncio.get_running_loop()
    began = loop.time()
    try:
        await limit.hold("batch", asyncio.sleep(seconds))
    except TimeoutError:
        return loop.time() - began
    assert loop.time() - began == pytest.approx(seconds)
    return loop.time() - began


@pytest.mark.parametrize(("usual", "going", "ending"), [(10, 1800, 120), (200, 4000, 1000), (None, 21600, 1800)])
def test_a_learner_hangs_by_the_measure_of_its_own_answers_and_sooner_once_the_run_is_to_end(usual, going, ending):
    async def main():
        limit = LearnerLimit()
        if usual is not None:
            await ends_after(limit, usual)
        assert limit.seconds("checkpoint") == 21600  # of another kind nothing is known
        assert await ends_after(limit, going - 1) == going - 1
        limit = LearnerLimit()
        if usual is not None:
            await ends_after(limit, usual)
        assert await ends_after(limit, 10**6) == pytest.approx(going)
        asyncio.get_running_loop().call_later(1000, setattr, limit, "ending", True)
        assert await ends_after(limit, 10**6) == pytest.approx(1000 + ending, abs=5.1)

    run(main())
