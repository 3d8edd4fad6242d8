"""Iterations that teach nothing are counted over the end of an attempt."""

from __future__ import annotations

from types import SimpleNamespace

import pytest

from tests.sim.test_pipeline import ASYNC
from tests.sim.virtual_time import run
from tests.sim.world import Shape, World, config
from trainer.errors import RunError
from trainer.failures import EMPTY_LIMIT


class Resumed(World):
    restored = SimpleNamespace(evaluations={}, last_reward=None, empty=EMPTY_LIMIT - 3)


def test_a_resumed_run_that_goes_on_learning_nothing_has_not_another_twenty_iterations():
    settings = {**ASYNC, "training__weight_sync__enable": False, "checkpoint__every_n_iters": 1}

    async def main() -> World:
        world = Resumed(config(**settings), Shape(replicas=2, dead=lambda assignment: True))
        with pytest.raises(RunError) as error:
            await world.pipeline.run()
        assert error.value.code == "no_gradient"
        return world

    assert [facts["empty"] for facts in run(main()).saved] == [EMPTY_LIMIT - 2, EMPTY_LIMIT - 1]
