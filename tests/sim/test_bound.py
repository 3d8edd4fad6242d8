"""The pipeline comes to 95 % of what simulated machines could do (DESIGN 5); the bench has all sizes and modes."""

import pytest

from tests.bench.pipeline_sim import simulate


@pytest.mark.parametrize("gpus", [1, 2, 8, 16])
def test_in_flight_updates_keep_the_machines_busy(gpus):
    assert 0.95 <= simulate(gpus, "in-flight").ratio_to_bound <= 1.0


def test_turns_do_not():
    assert simulate(8, "sync").ratio_to_bound < simulate(8, "one-step-async").ratio_to_bound < 0.8
