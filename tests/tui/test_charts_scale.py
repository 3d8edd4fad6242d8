"""Axes: round limits and ticks inside them, numbers of one width, log scales that refuse."""

from __future__ import annotations

from itertools import pairwise
from math import inf, isfinite, nan

import pytest
from hypothesis import given
from hypothesis import strategies as st

from rltui.charts import numbers
from rltui.charts.scale import clip, fit_scale, log_refusal, stride_end, ticks

ANY = st.floats(allow_nan=False, allow_infinity=False)


@given(a=ANY, b=ANY, most=st.integers(2, 12), log=st.booleans())
def test_ticks_are_rising_inside_and_told_apart_by_labels_of_one_width(
    a: float, b: float, most: int, log: bool
) -> None:
    low, high = (abs(a), abs(b)) if log else (a, b)
    low, high = min(low, high), max(low, high)
    if log and low <= 0:
        low, high = 1e-3, max(high, 1e-3)
    scale = fit_scale(low, high, log)
    assert isfinite(scale.low) and isfinite(scale.high) and scale.low < scale.high
    marks = ticks(scale, most)
    assert 1 <= len(marks) <= most
    noise = 1e-9 * (scale.low if log else scale.high - scale.low)
    assert all(scale.low - noise <= mark <= scale.high + noise for mark in marks)
    assert all(x < y for x, y in pairwise(marks))
    texts = (numbers.log_labels if log else numbers.labels)(marks)
    assert len({len(text) for text in texts}) == 1
    assert len(set(texts)) == len(marks) or high - low < 1e-9 * max(abs(low), abs(high))


@given(low=st.floats(-1e9, 1e9), spread=st.floats(1e-3, 1e9))
def test_limits_hold_the_data_and_waste_little(low: float, spread: float) -> None:
    high = low + spread
    if high - low < 1e-9 * abs(low):
        return
    scale = fit_scale(low, high)
    assert scale.low <= low + 1e-6 * spread and high - 1e-6 * spread <= scale.high
    assert scale.high - scale.low <= 1.5 * spread


@pytest.mark.parametrize(
    ("low", "high", "most", "labels"),
    [
        (0.02, 0.57, 4, ["0.0", "0.2", "0.4", "0.6"]),
        (0, 2000, 3, ["   0", "1000", "2000"]),
        (-2.5e5, 2e5, 4, ["-200k", "    0", " 200k"]),
        (0, 3e-5, 4, ["   0", "1e-5", "2e-5", "3e-5"]),
        (1.2e6, 1.9e6, 3, ["1.2M", "1.8M"]),
    ],
)
def test_labels(low: float, high: float, most: int, labels: list[str]) -> None:
    assert numbers.labels(ticks(fit_scale(low, high), most)) == labels


def test_log_ticks_are_powers_of_ten() -> None:
    scale = fit_scale(3e-6, 4e-3, log=True)
    assert (scale.low, scale.high) == (2e-6, 5e-3)
    assert numbers.log_labels(ticks(scale, 4)) == [" 1e-5", " 1e-4", "0.001"]


def test_log_is_refused_with_a_sentence() -> None:
    assert log_refusal("y", 1e-9) is None
    assert log_refusal("y", 0) == "log y needs > 0, lowest is 0"
    assert log_refusal("y", -0.25) == "log y needs > 0, lowest is -0.25"


def test_manual_limits_hold_as_given() -> None:
    scale = fit_scale(0.2, 0.93, limits=(0.0, 0.37))
    assert (scale.low, scale.high) == (0.0, 0.37)
    assert scale.dot(0.5, 40) == 40 and scale.dot(-1, 40) == -1 and scale.dot(0.37, 40) == 39


def test_equal_values_have_an_axis() -> None:
    for value in (0.0, 5.0, -5.0, 1e-300, 1e300):
        scale = fit_scale(value, value)
        assert scale.low <= value <= scale.high and scale.low < scale.high


def test_numbers() -> None:
    shown = [0.4123, 12.345, 412.0, 1234.0, 999.9, 3.1e-5, -0.5, 0, nan, inf, -inf, 2.5e17]
    assert [numbers.number(value) for value in shown] == [
        *("0.412", "12.3", "412", "1.23k", "1.00k", "3.1e-5", "-0.500", "0", "NaN", "Inf", "-Inf", "2.5e17")
    ]
    assert [numbers.place(x) for x in (412, 300_000, 2.5)] == ["412", "300000", "2.50"]


def test_the_clip_leaves_a_hundredth_at_each_end() -> None:
    kept = clip([float(i) for i in range(101)])
    assert kept is not None and (kept.low, kept.high) == (1.0, 99.0)
    assert clip([1.0] * 9) is None


@pytest.mark.parametrize(("low", "high"), [(1.0, 5.0), (1.0, 100.0), (2.0, 435.0), (0.0, 1e6)])
def test_a_growing_range_keeps_its_end_for_many_points_and_is_never_far_ahead(low, high):
    ends = [stride_end(low, high + step) for step in range(int(high / 8))]
    assert all(high + step <= end <= high + step + (high + step - low) / 8 for step, end in enumerate(ends))
    assert len(set(ends)) <= 4
