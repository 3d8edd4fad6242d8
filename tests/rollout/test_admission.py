"""The admission rule under simulation: no deadlock, bounded run-ahead, and at max_lag 0 a synchronous run."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from trainer.rollout.admission import first_overfull, newest_iteration


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
            newest = newest_iteration(steps=steps, max_lag=max_lag, updates_served=served)
            room = episodes * newest - started
            assert room > 0 or started > done, "nothing runs and nothing may start"
            started += max(0, room)
            done = started
        assert learned == (iteration - 1) * steps and started <= episodes * (iteration + max_lag // steps)
        # An episode of this iteration started at the latest served weights: its lag when the batch closes.
        for step in range(1, steps + 1):
            learned += 1
            if learned % interval == 0 or (max_lag == 0 and step == steps):
                served = learned


def test_at_lag_zero_the_next_iteration_waits_for_all_updates_of_this_one():
    assert [newest_iteration(steps=2, max_lag=0, updates_served=w) for w in (0, 1, 2)] == [1, 1, 2]


@given(steps=st.integers(1, 9), max_lag=st.integers(0, 40), updates=st.integers(0, 200))
def test_what_is_started_now_is_young_enough_for_the_newest_iteration_and_for_none_after_it(steps, max_lag, updates):
    newest = newest_iteration(steps=steps, max_lag=max_lag, updates_served=updates)
    assert (newest - 1) * steps - updates <= max_lag < newest * steps - updates


@pytest.mark.parametrize(
    ("newest", "overfull"),
    [
        ([], None),
        ([6, 6, 7, 7], None),  # two places each in the batches 6 and 7
        ([5], 5),  # what must be in this batch may not be left
        ([6, 6, 6], 6),
        ([6, 7, 7, 7, 7], 7),
        ([4, 4, 4], None),  # lost already
    ],
)
def test_a_batch_leaves_no_more_than_the_next_ones_have_places_for(newest, overfull):
    assert first_overfull(newest, iteration=5, groups=2) == overfull


@given(st.lists(st.integers(1, 8), max_size=12), st.integers(1, 3), st.integers(1, 3))
def test_if_all_fits_the_oldest_first_fit_one_batch_after_the_other(newest, groups, iteration):
    """Whatever comes ready in whatever order: taking the oldest first loses none that could be in time."""
    left = sorted(n for n in newest if n > iteration)
    if first_overfull(left, iteration=iteration, groups=groups) is not None:
        return
    while left:
        iteration += 1
        batch, left = left[:groups], left[groups:]
        assert min(batch) >= iteration and first_overfull(left, iteration=iteration, groups=groups) is None
