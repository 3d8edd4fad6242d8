from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from trainer.rewards.advantages import critic_advantages, group_advantages, mean_and_std


def test_closed_form() -> None:
    group = group_advantages([1.0, 2.0, 3.0, 6.0])
    assert (group.mean, group.dead) == (3.0, False)
    assert group.std == pytest.approx(np.sqrt(14 / 4))  # population, not sample
    assert group.advantages == pytest.approx(np.array([-2, -1, 0, 3]) / (np.sqrt(3.5) + 1e-6))


def test_without_std_only_centres() -> None:
    assert group_advantages([0.0, 1.0], std=False).advantages == pytest.approx([-0.5, 0.5])


@pytest.mark.parametrize(("rewards", "dead"), [([1, 1 + 9e-7], True), ([1, 1 + 1.1e-6], False), ([5.0], True)])
def test_dead_by_range(rewards: list[float], dead: bool) -> None:
    group = group_advantages(rewards)
    assert group.dead is dead
    assert not (group.dead and group.advantages.any())


@pytest.mark.parametrize("rewards", [[], [1.0, float("nan")], [float("inf"), 0.0]])
def test_refuses_what_has_no_advantage(rewards: list[float]) -> None:
    with pytest.raises(ValueError, match="finite rewards"):
        group_advantages(rewards)


@given(st.lists(st.floats(-100, 100), min_size=2, max_size=16), st.floats(0.1, 10), st.floats(-50, 50))
def test_no_scale_or_offset_matters(rewards: list[float], scale: float, offset: float) -> None:
    first = group_advantages(rewards)
    second = group_advantages([scale * r + offset for r in rewards])
    if first.std > 1e-2 and second.std > 1e-2:
        assert second.advantages == pytest.approx(first.advantages, abs=1e-2)
        assert first.advantages.sum() == pytest.approx(0, abs=1e-6)


@pytest.mark.parametrize("scale", [1e300, 1.7e308])
def test_rewards_whose_sum_overflows_have_the_advantages_of_smaller_ones(scale: float) -> None:
    group, small = group_advantages([scale, -scale, scale, 0.0]), group_advantages([1.0, -1.0, 1.0, 0.0])
    assert not group.dead and group.advantages == pytest.approx(small.advantages, rel=1e-5)
    assert group.mean == pytest.approx(scale / 4) and np.isfinite(group.std)
    assert np.isfinite(group_advantages([scale, -scale], std=False).advantages).all()
    assert group_advantages([scale, scale]).dead


@given(st.lists(st.floats(-1e6, 1e6), min_size=1, max_size=16))
def test_mean_and_std_are_numpys_bit_for_bit(values: list[float]) -> None:
    r = np.array(values)
    assert mean_and_std(r) == (r.mean(), r.std())


def test_beside_a_critic_no_group_is_dead_and_none_has_advantages() -> None:
    group = critic_advantages([1.0, 1.0])
    assert (group.mean, group.std, group.dead) == (1.0, 0.0, False) and np.isnan(group.advantages).all()
