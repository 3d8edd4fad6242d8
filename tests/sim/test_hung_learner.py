"""A learner that hangs is named, with what it is at, whoever waits for it."""

from __future__ import annotations

import asyncio

import pytest

from tests.sim.test_pipeline import ASYNC
from tests.sim.virtual_time import run
from tests.sim.world import Shape, World, config
from trainer.waiting import Wait


class Hung(World):
    at = 0

    async def _step(self, step, sequences):
        if step == self.at:
            now = asyncio.get_running_loop().time()
            self.learner.work = Wait("run", "policy", f"the update of step {step} (logs/learner-0.log)", now)
            await asyncio.sleep(1000)
            self.learner.work = None
        return await super()._step(step, sequences)


@pytest.mark.parametrize("at", [3, 12])  # behind the last one no episode waits to begin
def test_a_learner_that_hangs_is_named_with_its_log(at):
    async def main() -> Hung:
        world = Hung(config(**ASYNC), Shape(replicas=2))
        world.at = at
        assert await world.pipeline.run() == "completed"
        return world

    world = run(main())
    (told,) = [data["reason"] for type_, data in world.recorder.events if type_ == "rl.pipeline.backpressure"]
    assert f"s for policy: the update of step {at} (logs/learner-0.log)" in told
    shown = any("the update of step" in waiting["on"] for waiting in world.recorder.waited)
    assert shown is (at == 12)  # before, the weights that episodes wait for are the older wait
