"""From criteria to one number, and whether two judges agree."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from trainer.judge.agreement import spearman
from trainer.judge.rubric import Criterion, RubricPart
from trainer.judge.score import combine, of_events

SCORES = {"a": 1.0, "b": 0.0, "x.one": 0.5, "x.two": 1.0}


def part(*ids: str, aggregation: str = "weighted_sum") -> RubricPart:
    weights = {"a": 1.0, "b": 3.0, "x.one": 1.0, "x.two": 4.0}
    return RubricPart(aggregation=aggregation, criteria=tuple(Criterion(id=id, weight=weights[id]) for id in ids))


def test_criteria_without_tracks_are_weighed_by_their_weights_or_summed() -> None:
    assert combine(part("a", "b"), SCORES, {}) == (0.25, {"default": 0.25})
    assert combine(part("a", "b", aggregation="sum"), SCORES, {})[0] == 1.0


def test_tracks_weigh_alike_or_as_said_and_only_those_with_criteria_count() -> None:
    both = part("a", "b", "x.one", "x.two")
    total, tracks = combine(both, SCORES, {})
    assert tracks == {"default": 0.25, "x": pytest.approx(0.9)} and total == pytest.approx((0.25 + 0.9) / 2)
    assert combine(both, SCORES, {"x": 3.0, "default": 1.0})[0] == pytest.approx((3 * 0.9 + 0.25) / 4)
    assert combine(both, SCORES, {"x": 3.0, "none": 9.0})[0] == pytest.approx(0.9)


def test_events_are_averaged_so_that_a_longer_episode_does_not_win() -> None:
    assert of_events([1.0, 0.5], "mean") == 0.75 and of_events([1.0, 0.5], "sum") == 1.5


@given(st.lists(st.tuples(st.integers(-3, 3), st.integers(-3, 3)), min_size=3, max_size=30))
def test_rank_correlation_is_that_of_the_ranks(pairs: list[tuple[int, int]]) -> None:
    x, y = (np.array(side, float) for side in zip(*pairs, strict=True))

    def ranks(v: np.ndarray) -> np.ndarray:  # mean rank of equals, by counting
        return (v[None] < v[:, None]).sum(1) + ((v[None] == v[:, None]).sum(1) + 1) / 2

    found = spearman(x.tolist(), y.tolist())
    if np.ptp(x) == 0 or np.ptp(y) == 0:
        assert found is None
    else:
        assert found == pytest.approx(np.corrcoef(ranks(x), ranks(y))[0, 1])


def test_rank_correlation_needs_three_pairs() -> None:
    assert spearman([0.0, 1.0], [0.0, 1.0]) is None
    assert spearman([1, 2, 3], [10, 200, 3000]) == pytest.approx(1) and spearman([1, 2, 3], [3, 2, 1]) == -1
    with pytest.raises(ValueError, match="no pairs"):
        spearman([1.0], [])
