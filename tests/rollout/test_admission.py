"""The admission rule under simulation: no deadlock, bounded run-ahead, and at max_lag 0 a synchronous run."""

from hypothesis import given
from hypothesis import strategies as st

from trainer.rollout.admission import admitted


@given(
    groups=st.integers(1, 6),
    size=st.integers(2, 6),
    update=st.integers(1, 40),
    interval=st.integers(1, 5),
    extra_lag=st.integers(0, 9),
)
def test_a_run_neither_stalls_nor_runs_ahead(groups, size, update, interval, extra_lag):
    episodes = groups * size
    steps = -(-episodes // update)
    max_lag = 0 if extra_lag == 0 else interval + extra_lag - 1
    started = done = served = learned = 0
    for iteration in range(1, 12):
        while done < iteration * episodes:
            room = admitted(episodes=episodes, steps=steps, max_lag=max_lag, updates_served=served) - started
            assert room > 0 or started > done, "nothing runs and nothing may start"
            started += max(0, room)
            done = started
        # An episode of this iteration started at the latest served weights: its lag when the batch closes.
        for step in range(1, steps + 1):
            learned += 1
            if learned % interval == 0 or (max_lag == 0 and step == steps):
                served = learned
        assert started <= episodes * (iteration + (max_lag + served) // steps + 1)


def test_at_lag_zero_the_next_iteration_waits_for_all_updates_of_this_one():
    rule = dict(episodes=32, steps=2, max_lag=0)
    assert admitted(**rule, updates_served=0) == 32
    assert admitted(**rule, updates_served=1) == 32
    assert admitted(**rule, updates_served=2) == 64
