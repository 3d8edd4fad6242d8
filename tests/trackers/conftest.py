"""A run that a tracker is told of."""

import pytest

from trainer.trackers.base import RunFacts


@pytest.fixture
def facts(tmp_path):
    """facts(**changes) -> RunFacts"""

    def make(**changes):
        values = {"config": {"training": {"group_size": 4}}, "tags": {"team": "mine"}, "from_step": 0}
        return RunFacts("rl_0", "demo-rl_0", tmp_path, **(values | changes))

    return make
