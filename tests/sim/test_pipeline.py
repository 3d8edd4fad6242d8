"""The real pipeline over a simulated engine: what it promises for whatever sizes, latencies and failures."""

# ruff: noqa: ASYNC110 - in virtual time a look costs nothing
from __future__ import annotations

import asyncio
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.sim.virtual_time import Deadlock, run
from tests.sim.world import Shape, World, config
from trainer.errors import RunError
from trainer.failures import EMPTY_LIMIT
from trainer.rollout.player import TaskAppDown

EVALUATED = {"evaluation__instances": 4, "evaluation__seeds": [900, 901], "evaluation__every_n_iters": 2}


class Checked(World):
    """Checks every start against the admission rule, whatever the dispatcher thinks."""

    def __init__(self, *args: Any) -> None:
        super().__init__(*args)
        self.groups: set[int] = set()

    async def play(self, assignment, stale):
        records, derived, training = self.recorder, self.loaded.derived, self.loaded.config.training
        if assignment.split == "train":
            self.groups.add(assignment.group)
            gone = {group.index for group in records.lost + records.refills}
            opened = len(self.groups - gone) * training.group_size
            newest = (training.max_lag + records.weight_updates) // derived["m"] + 1
            assert opened <= derived["E"] * newest, "more episodes than admission allows"
        return await super().play(assignment, stale)


def played(loaded, shape: Shape, make: type[World] = Checked, limit_s: float = 1e5) -> World:
    async def main() -> World:
        world = make(loaded, shape)
        async with asyncio.timeout(limit_s):
            assert await world.pipeline.run() == "completed"
        return world

    return run(main())


@settings(max_examples=150, deadline=None)
@given(
    groups=st.integers(1, 5),
    size=st.integers(4, 6),
    update=st.integers(1, 24),
    interval=st.integers(1, 5),
    extra_lag=st.integers(-1, 8),
    concurrent=st.integers(1, 40),
    replicas=st.integers(1, 3),
    turns=st.integers(1, 3),
    sigma=st.floats(0.0, 2.0),
    train_rate=st.sampled_from([100.0, 1000.0, 10000.0]),
    sync_s=st.sampled_from([0.0, 0.5, 20.0]),
    faults=st.booleans(),
    refills=st.integers(0, 2),
    evaluates=st.booleans(),
    pins=st.booleans(),
    seed=st.integers(0, 1000),
)
def test_no_deadlock_whole_batches_bounded_lag_and_run_ahead(
    groups, size, update, interval, extra_lag, concurrent, replicas, turns, sigma, train_rate, sync_s, faults, refills,
    evaluates, pins, seed,
):  # fmt: skip
    max_lag = 0 if extra_lag < 0 else interval + extra_lag
    loaded = config(
        rollout__episodes_per_batch=groups * size,
        rollout__max_concurrent_rollouts=concurrent,
        rollout__max_excluded_fraction=1.0,
        rollout__max_refill_groups=refills,
        training__group_size=size,
        training__batch_size=update,
        training__iterations_per_epoch=5,
        training__weight_sync_interval=interval,
        training__max_lag=max_lag,
        **(EVALUATED if evaluates else {}),
    )
    shape = Shape(
        replicas=replicas,
        turns=turns,
        sigma=sigma,
        train_tokens_per_s=train_rate,
        sync_s=sync_s,
        seed=seed,
        pins=pins,
        # of every seventh group one member fails for good, of every fifth another one fails once
        fails=lambda a: (
            faults
            and a.split == "train"
            and ((a.group % 7 == 2 and a.member == 0) or (a.group % 5 == 1 and a.member == 1 and not a.replay))
        ),
        dead=lambda a: a.split == "train" and a.group % 4 == 1,
    )
    world = played(loaded, shape)
    records = world.recorder

    assert len(records.batches) == 5 and len(records.steps) == loaded.derived["steps"] == records.step
    for iteration, batch in enumerate(records.batches, start=1):
        assert batch.step == (iteration - 1) * loaded.derived["m"]
        assert len(batch.groups) == groups and all(len(group.members) == size for group in batch.groups)
        assert 0 <= min(batch.lags.of.values()) and batch.lags.max <= max_lag and batch.masked == []
        assert sum(group.refills != [] for group in batch.groups) <= 5 * refills
        if max_lag == 0:
            assert {group.iteration for group in batch.groups} == {iteration}
    taken = [group.index for batch in records.batches for group in batch.groups]
    assert len(set(taken)) == len(taken), "a group was learned from twice"
    assert not set(taken) & {group.index for group in records.lost + records.refills}
    assert world.most_in_flight <= concurrent and world.in_flight == 0

    in_place_of = {
        group.index for batch in records.batches for group in batch.groups if group.replaces or group.refills
    }
    starts = [a.group for a in world.started if a.split == "train" and not a.replay]
    first = [g for g in dict.fromkeys(starts) if g not in in_place_of and g in taken]
    assert first == sorted(first), "an older group had to wait for a newer one"
    if evaluates:
        for at in {episode.assignment.iteration for episode in records.evaluated}:
            versions = {e.versions for e in records.evaluated if e.assignment.iteration == at}
            assert len(versions) == 1 and len(set(versions.pop())) == 1, "an evaluation saw several versions"
        assert {e.assignment.iteration for e in records.evaluated} == {0, 2, 4, 5}
        assert max(e.versions[0] for e in records.evaluated) == records.weight_version


ASYNC = dict(
    rollout__episodes_per_batch=16,
    rollout__max_concurrent_rollouts=20,
    training__group_size=4,
    training__batch_size=16,
    training__iterations_per_epoch=12,
    training__max_lag=2,
)


def test_a_straggler_is_waited_for_then_dropped_played_again_and_counted():
    """One episode never ends: it holds the learner up for rollout.timeout_s at most, and nobody else for longer."""

    class Hangs(World):
        async def _turns(self, assignment):
            if (assignment.group, assignment.member, assignment.replay) == (5, 0, 0):
                await asyncio.sleep(1e9)
            return await super()._turns(assignment)

    loaded = config(**ASYNC, rollout__timeout_s=300)
    world = played(loaded, Shape(replicas=2, sigma=0.3), Hangs)
    [stale] = world.recorder.excluded
    assert stale.exclusion.code == "stale" and stale.exclusion.detail["limit"] == 2
    assert stale.exclusion.detail["lag"] > 2
    steps = world.recorder.steps
    assert 0 < sum(step["time/wait_for_straggler"] for step in steps) <= 300
    assert sum(step.get("off_policy/dropped", 0) for step in steps) == 1
    assert 5 in [group.index for batch in world.recorder.batches for group in batch.groups]
    assert all(batch.lags.max <= 2 for batch in world.recorder.batches)


def test_a_straggler_that_hangs_again_costs_its_group_and_not_the_run():
    class Hangs(World):
        async def _turns(self, assignment):
            if (assignment.group, assignment.member) == (5, 0):
                await asyncio.sleep(1e9)
            return await super()._turns(assignment)

    world = played(config(**ASYNC, rollout__timeout_s=300), Shape(replicas=2, sigma=0.3), Hangs)
    assert [group.index for group in world.recorder.lost] == [5]
    [taken] = [group for batch in world.recorder.batches for group in batch.groups if group.replaces == 5]
    assert taken.iteration == 2


def test_episodes_go_on_through_syncs_and_every_token_knows_its_version():
    world = played(config(**ASYNC), Shape(replicas=2))
    spans = [m.versions for batch in world.recorder.batches for g in batch.groups for m in g.members]
    assert any(low < high for low, high in spans)
    assert sum(step["time/wait_for_batch"] for step in world.recorder.steps[1:]) > 0


def test_syncs_wait_for_an_evaluation_and_training_goes_on_as_far_as_it_may():
    loaded = config(**{**ASYNC, **EVALUATED, "evaluation__instances": 200, "evaluation__max_concurrent_rollouts": 4})
    world = played(loaded, Shape(replicas=2, sync_s=0.1))
    waits = [step["time/wait_for_eval"] for step in world.recorder.steps]
    synced = [batch.lags.max for batch in world.recorder.batches]
    assert max(waits) > 0 and max(synced) == 2
    assert {e.versions[0] for e in world.recorder.evaluated} > {0}


def test_an_evaluation_keeps_its_own_limit_of_episodes_at_once_and_the_runs():
    class Counted(World):
        evaluating = most_evaluating = 0

        async def play(self, assignment, stale):
            mine = assignment.split == "eval"
            self.evaluating += mine
            self.most_evaluating = max(self.most_evaluating, self.evaluating)
            try:
                return await super().play(assignment, stale)
            finally:
                self.evaluating -= mine

    limits = {"evaluation__instances": 40, "evaluation__max_concurrent_rollouts": 3}
    world = played(config(**{**ASYNC, **EVALUATED, **limits, "rollout__max_concurrent_rollouts": 8}), Shape(), Counted)
    assert (world.most_evaluating, world.most_in_flight) == (3, 8)
    plays = [(e.assignment.iteration, e.assignment.seed, e.assignment.member) for e in world.recorder.evaluated]
    assert len(set(plays)) == len(plays) and {seed for _, seed, _ in plays} == {900, 901}


def test_a_pinned_evaluation_keeps_its_version_while_syncs_go_on():
    loaded = config(**{**ASYNC, **EVALUATED, "evaluation__instances": 200, "evaluation__max_concurrent_rollouts": 4})
    world = played(loaded, Shape(replicas=2, sync_s=0.1, pins=True))
    records = world.recorder
    assert max(world.newer) > 0 and world.newer[-1] == 0  # after the last iteration nothing is left to send
    summaries = [data for kind, data in records.events if kind == "rl.eval.summary"]
    assert [data["mixed"] for data in summaries] == [False] * len(summaries)
    for (iteration, updates, version), told in zip(records.evaluations, summaries, strict=True):
        played_with = {e.versions for e in records.evaluated if e.assignment.iteration == iteration}
        assert played_with == {(version, version)} and told["weight_version"] == version
        assert updates == version * loaded.config.training.weight_sync_interval or iteration == 12
    assert world.pinned is None


def test_without_weight_sync_nothing_is_too_old():
    loaded = config(**ASYNC, training__weight_sync__enable=False)
    world = played(loaded, Shape(replicas=2), World)
    assert [batch.lags.max for batch in world.recorder.batches] == list(range(12))


def test_a_run_that_nothing_can_be_learned_from_ends_with_its_cause():
    loaded = config(**{**ASYNC, "training__iterations_per_epoch": 60})
    with pytest.raises(RunError, match=rf"no episode of {EMPTY_LIMIT} iterations in a row carries gradient") as error:
        played(loaded, Shape(replicas=2, dead=lambda assignment: True))
    assert error.value.code == "no_gradient" and "group_size" in error.value.hint


def test_whoever_waits_too_long_is_named_once_and_its_end_is_told():
    class Slow(World):
        async def _step(self, step, sequences):
            await asyncio.sleep(1000 if step == 3 else 0)
            return await super()._step(step, sequences)

    world = played(config(**ASYNC), Shape(replicas=2), Slow)
    told = [(type_, data["reason"]) for type_, data in world.recorder.events if type_.startswith("rl.pipeline")]
    assert [type_ for type_, _ in told] == ["rl.pipeline.backpressure", "rl.pipeline.resume"]
    assert "for policy: weights after step 2" in told[0][1]
    assert {"policy", "batch"} <= {waiting["for"] for waiting in world.recorder.waited}
    assert world.recorder.phase_now == "training"


def test_paused_nothing_begins_and_what_runs_goes_on():
    async def main() -> World:
        world = World(config(**ASYNC), Shape(replicas=2))
        run_ = asyncio.ensure_future(world.pipeline.run())
        await asyncio.sleep(30)
        world.room.admitting = False
        world.room.tell()
        begun = len(world.started)
        await asyncio.sleep(2000)
        assert len(world.started) == begun and world.in_flight == 0
        world.room.admitting = True
        world.room.tell()
        assert await run_ == "completed"
        return world

    world = run(main())
    assert len(world.recorder.batches) == 12


@pytest.mark.parametrize("at", [30, 45, 60, 75])
def test_a_checkpoint_that_is_asked_for_in_a_pause_is_of_whole_iterations_and_what_is_begun_is_in_none(at):
    """Wherever the pause meets the run, it comes to rest before a batch is closed, or within an update."""

    async def main() -> World:
        world = World(config(**ASYNC), Shape(replicas=2))
        run_ = asyncio.ensure_future(world.pipeline.run())
        await asyncio.sleep(at)
        world.room.admitting = False
        world.room.tell()
        await asyncio.sleep(2000)
        closed = len(world.recorder.batches)
        assert closed and world.in_flight == 0
        world.room.saves_in_pause = True
        world.room.tell()
        await asyncio.sleep(1)
        assert [saved["iteration"] for saved in world.saved] == [closed] == [world.recorder.iteration]
        assert len(world.saved[-1]["cursor"]["again"]) >= len(world.pipeline._dispatcher._ready) > 0
        await asyncio.sleep(2000)
        assert len(world.recorder.batches) == closed
        world.room.admitting = True
        world.room.tell()
        assert await run_ == "completed"
        return world

    world = run(main())
    assert len(world.recorder.batches) == 12


def test_concurrency_and_lag_can_be_lowered_while_it_runs_and_what_is_too_old_is_masked():
    async def main() -> tuple[World, int]:
        world = World(config(**{**ASYNC, "training__max_lag": 4}), Shape(replicas=2, train_tokens_per_s=300))
        run_ = asyncio.ensure_future(world.pipeline.run())
        while len(world.recorder.batches) < 6:
            await asyncio.sleep(1)
        world.room.config = config(**{**ASYNC, "training__max_lag": 1, "rollout__max_concurrent_rollouts": 3}).config
        world.room.tell()
        while world.in_flight > 3:
            await asyncio.sleep(1)
        world.most_in_flight = 0
        await run_
        return world, world.most_in_flight

    world, most = run(main())
    assert most <= 3
    assert "stale" in {code for batch in world.recorder.batches[6:] for code in batch.masked}
    assert world.recorder.batches[-1].lags.max <= 1


@pytest.mark.parametrize("max_lag", [0, 2])
def test_a_stop_ends_at_the_last_closed_iteration_and_what_was_begun_is_played_again(max_lag):
    async def main() -> World:
        world = World(config(**{**ASYNC, "training__max_lag": max_lag}), Shape(replicas=2))
        run_ = asyncio.ensure_future(world.pipeline.run())
        while len(world.recorder.batches) < 5 or not world.in_flight:
            await asyncio.sleep(1)
        world.stopping.set()
        assert await run_ == "stopped" and world.in_flight == 0
        return world

    world = run(main())
    assert world.recorder.step == len(world.recorder.batches) == world.saved[-1]["iteration"]
    cursor, taken = world.saved[-1]["cursor"], {g.index for batch in world.recorder.batches for g in batch.groups}
    begun = [index for index, _ in cursor["again"]]
    assert begun and sorted(taken | set(begun)) == list(range(cursor["group"]))


def test_the_loop_itself_knows_a_deadlock():
    with pytest.raises(Deadlock):
        run(asyncio.Event().wait())


class Outages(World):
    """The task app is not there from second 100 on, until `back`."""

    back = 400.0

    async def is_up(self):
        return not 100 <= asyncio.get_running_loop().time() < self.back

    async def play(self, assignment, stale):
        episode = await super().play(assignment, stale)
        if not await self.is_up():
            raise TaskAppDown("task app answered nothing (connection refused) 1 times")
        return episode


def test_an_outage_of_the_task_app_is_sat_out_and_costs_no_episode():
    loaded = config(**{**ASYNC, **EVALUATED}, rollout__max_excluded_fraction=0.0, rollout__timeout_s=200)
    world = played(loaded, Shape(replicas=2), Outages)
    records = world.recorder
    assert records.excluded == records.lost == [] and len(records.batches) == 12
    began, ended = [(type_, data["reason"]) for type_, data in records.events if "pipeline" in type_]
    assert began[0] == "rl.pipeline.backpressure" and began[1].startswith("rollouts waited")
    assert "for task_app: the task app is down: task app answered nothing (connection refused)" in began[1]
    assert ended[0] == "rl.pipeline.resume" and records.phase_now != "waiting"
    assert "task_app" in {waiting["for"] for waiting in records.waited}
    begun = [at for at in world.begun if 110 < at < Outages.back]
    assert begun == [], "something was started although the app was not there"


def test_an_outage_without_end_ends_the_run_after_a_bounded_time_with_a_checkpoint():
    class Gone(Outages):
        back = 1e9

    async def main() -> World:
        world = Gone(config(**ASYNC, rollout__timeout_s=30), Shape(replicas=2))
        with pytest.raises(RunError, match="the task app did not come back within 300 s") as error:
            await world.pipeline.run()
        assert error.value.code == "task_app_down" and "connection refused" in error.value.message
        assert 400 <= asyncio.get_running_loop().time() < 430
        return world

    world = run(main())
    assert world.saved[-1]["iteration"] == len(world.recorder.batches) > 0 and world.in_flight == 0


def test_what_hangs_is_named_down_to_whose_reply_is_missing():
    class Hangs(World):
        async def _turns(self, assignment):
            if assignment.group == 5:
                await asyncio.sleep(1e9)
            return await super()._turns(assignment)

    world = played(config(**ASYNC, rollout__timeout_s=600), Shape(replicas=2, sigma=0.3), Hangs, limit_s=1e6)
    told = next(data["reason"] for type_, data in world.recorder.events if type_ == "rl.pipeline.backpressure")
    assert "learner waited" in told and "; rollouts waited" in told and "for task_app: 4 task app replies" in told
