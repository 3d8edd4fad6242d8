"""max_lag is lowered while the weights that serve are behind: what no step would bring is synced at once."""

# ruff: noqa: ASYNC110 - in virtual time a look costs nothing
from __future__ import annotations

import asyncio

import pytest

from tests.sim.test_pipeline import ASYNC
from tests.sim.virtual_time import run
from tests.sim.world import Records, Shape, World, config

INTERVAL = {**ASYNC, "training__max_lag": 4, "training__weight_sync_interval": 4}


@pytest.mark.parametrize("concurrent", [4, 8, 20])
@pytest.mark.parametrize("step", [2, 3, 5])
def test_a_run_goes_on_when_max_lag_becomes_0_between_two_syncs(step, concurrent):
    sizes = {**INTERVAL, "rollout__max_concurrent_rollouts": concurrent}

    async def main() -> World:
        world = World(config(**sizes), Shape(replicas=2, sigma=0.3))
        going = asyncio.ensure_future(world.pipeline.run())
        while world.recorder.step < step:
            await asyncio.sleep(1)
        world.room.config = config(**{**sizes, "training__max_lag": 0}).config
        world.room.tell()
        async with asyncio.timeout(20_000):
            assert await going == "completed"
        return world

    world = run(main())
    assert world.recorder.batches[-1].lags.max == 0


def test_without_a_change_a_sync_comes_only_when_it_is_due(monkeypatch):
    at: list[int] = []
    synced = Records.synced

    def noted(self, report, present):
        synced(self, report, present)
        at.append(self.step)

    monkeypatch.setattr(Records, "synced", noted)

    async def main() -> World:
        world = World(config(**{**INTERVAL, "rollout__max_concurrent_rollouts": 4}), Shape(replicas=2, sigma=0.3))
        assert await world.pipeline.run() == "completed"
        return world

    assert run(main()).recorder.step == 12 and at == [4, 8, 12]
