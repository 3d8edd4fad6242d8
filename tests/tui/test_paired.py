"""The paired test, against published numbers and closed forms."""

from __future__ import annotations

from math import atan, pi, sqrt

import pytest

from rltui.model.paired import differs, paired, t_quantile, t_within, verdict

# Student (1908), hours of sleep gained with two drugs by ten patients; R's t.test(paired=TRUE) gives the rest.
FIRST = [0.7, -1.6, -0.2, -1.2, -0.1, 3.4, 3.7, 0.8, 0.0, 2.0]
SECOND = [1.9, 0.8, 1.1, 0.1, -0.1, 4.4, 5.5, 1.6, 4.6, 3.4]


def seeds(values: list[float]) -> dict[int, float]:
    return dict(enumerate(values))


def test_students_own_data():
    test = paired(seeds(FIRST), seeds(SECOND))
    assert test.pairs == 10 and (test.better, test.equal, test.worse) == (9, 1, 0)
    assert test.mean == pytest.approx(1.58)
    assert (test.low, test.high) == (pytest.approx(0.7001142, abs=1e-6), pytest.approx(2.4598858, abs=1e-6))
    assert test.p == pytest.approx(0.00283289, abs=1e-7)
    other = paired(seeds(SECOND), seeds(FIRST))
    assert other.mean == pytest.approx(-1.58) and other.p == test.p
    assert (verdict(test), verdict(other)) == ("better", "worse")


def test_students_t_against_closed_forms_and_tables():
    for t in (0.0, 0.3, 1.0, 2.5, 40.0):
        assert t_within(t, 1) == pytest.approx(2 / pi * atan(t))
        assert t_within(t, 2) == pytest.approx(t / sqrt(2 + t * t))
        assert t_within(t, 4) == pytest.approx(t * (t * t + 6) / (t * t + 4) ** 1.5)
    for degrees, t in ((1, 12.70620), (2, 4.302653), (7, 2.364624), (49, 2.009575), (1000, 1.962339)):
        assert t_quantile(0.95, degrees) == pytest.approx(t, abs=1e-5)


def test_only_seeds_of_both_count():
    test = paired({1: 0.0, 2: 0.5, 3: 1.0}, {2: 0.75, 3: 1.0, 9: 0.0})
    assert test.pairs == 2 and test.mean == pytest.approx(0.125) and (test.better, test.equal) == (1, 1)


def test_what_cannot_be_tested_says_so_and_gives_no_number():
    nothing = paired({1: 0.5}, {2: 0.5})
    assert nothing.mean is nothing.p is None and verdict(nothing) == "no seed was evaluated in both"
    one = paired({1: 0.25}, {1: 0.5})
    assert one.mean == 0.25 and one.low is one.p is None and "cannot tell" in verdict(one)
    shifted = paired({1: 0.1, 2: 0.2}, {1: 0.2, 2: 0.3})
    assert shifted.p is None and not differs(shifted) and verdict(shifted).startswith("better by the same on each")
    same = paired({1: 0.1, 2: 0.2}, {1: 0.1, 2: 0.1 + 0.1})
    assert same.p == 1.0 and verdict(same) == "equal on each of 2 seeds"


def test_a_test_of_many_needs_a_smaller_p():
    test = paired({i: 0.0 for i in range(10)}, seeds([0.3, 0.1, -0.1, 0.4, 0.2, 0.0, 0.3, 0.2, 0.1, -0.1]))
    assert test.p is not None and 0.01 < test.p < 0.05
    assert differs(test) and not differs(test, 5)
    assert verdict(test, 5) == "no difference that 10 seeds can show"
