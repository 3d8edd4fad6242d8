"""Series for charts: no spike is lost, cuts leave nothing behind, and a draw touches few numbers."""

from __future__ import annotations

import random
from array import array
from math import inf, isfinite, nan
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from rltui.charts.pyramid import FACTOR, Pyramid
from rltui.charts.smooth import Ema, default_weight

VALUES = st.lists(st.floats(-1e6, 1e6) | st.sampled_from([nan, inf, -inf]), max_size=700)


def series(ys: list[float], first: int = 0) -> Pyramid:
    pyramid = Pyramid()
    pyramid.extend(range(first, first + len(ys)), ys)
    return pyramid


def finite(ys: list[float]) -> list[float]:
    return [y for y in ys if isfinite(y)]


@given(ys=VALUES, count=st.integers(1, 400))
def test_every_spike_and_every_gap_is_in_a_column(ys: list[float], count: int) -> None:
    columns = series(ys).columns(0, max(1, len(ys) - 1), count)
    spans = [span for span in columns.spans if span is not None]
    kept = finite(ys)
    assert len(columns.spans) == len(columns.gaps) == count
    assert min((span.low for span in spans), default=None) == min(kept, default=None)
    assert max((span.high for span in spans), default=None) == max(kept, default=None)
    assert sum(columns.gaps) == len(ys) - len(kept)
    assert all(isfinite(value) for span in spans for value in span)


@given(ys=VALUES, data=st.data())
def test_bounds_are_those_of_a_scan(ys: list[float], data: st.DataObject) -> None:
    x0 = data.draw(st.integers(0, 700))
    x1 = data.draw(st.integers(x0, 700))
    kept = finite(ys[x0 : x1 + 1])
    assert series(ys).bounds(x0, x1) == ((min(kept), max(kept)) if kept else None)


def test_ranges_over_all_levels_are_those_of_a_scan_after_cuts_too() -> None:
    rng = random.Random(7)
    ys: list[float] = []
    pyramid = Pyramid()
    for length, cut in ((6000, 4500), (3000, 4097), (2500, 256), (5000, 5255)):
        # A third are values, and they grow: the widest ones come from ever new buckets.
        more = [rng.choice([nan, inf, rng.uniform(-1, 1) * len(ys)]) for _ in range(length)]
        pyramid.extend(range(len(ys), len(ys) + length), more)
        ys = (ys + more)[:cut]
        pyramid.truncate(cut)
        for _ in range(150):
            x0 = rng.randrange(len(ys))
            x1 = rng.randrange(x0, min(len(ys), x0 + rng.choice([5, 40, 600, 6000])))
            kept = finite(ys[x0 : x1 + 1])
            assert pyramid.bounds(x0, x1) == ((min(kept), max(kept)) if kept else None)
            low = rng.uniform(-3000, 0)
            outside = sum(not low <= y <= -low for y in kept)
            assert pyramid.count_outside(x0, x1, low, -low, most=10_000) == outside


@given(ys=VALUES, x0=st.integers(0, 700), x1=st.integers(0, 700), low=st.floats(-1e6, 1e6))
def test_what_lies_outside_is_counted(ys: list[float], x0: int, x1: int, low: float) -> None:
    outside = [y for y in finite(ys[x0 : x1 + 1]) if not low <= y <= low + 1000]
    assert series(ys).count_outside(x0, x1, low, low + 1000) == len(outside)


@given(
    steps=st.lists(st.tuples(st.integers(0, 60), st.floats(-10, 10) | st.just(nan)), max_size=300),
    first=st.integers(0, 300),
)
def test_a_resumed_series_is_as_if_the_dropped_points_had_never_been(
    steps: list[tuple[int, float]], first: int
) -> None:
    pyramid = series([float(i) for i in range(first)], first=-first)
    plain: dict[int, float] = {x - first: float(x) for x in range(first)}
    for x, y in steps:
        pyramid.append(x, y)
        plain = {old: value for old, value in plain.items() if old < x} | {x: y}
    fresh = Pyramid()
    fresh.extend(plain, plain.values())
    assert repr(pyramid.points(0, 1000)) == repr(fresh.points(0, 1000))
    assert pyramid.columns(-300, 60, 37) == fresh.columns(-300, 60, 37)
    assert pyramid.gap_count == fresh.gap_count


def test_the_same_x_replaces_and_a_smaller_one_cuts() -> None:
    pyramid = series([0.0, 1.0, 2.0, 3.0])
    pyramid.append(3, 9.0)
    assert (len(pyramid), pyramid.last()) == (4, (3, 9.0))
    pyramid.append(1, 5.0)
    assert (len(pyramid), pyramid.last(), pyramid.bounds(0, 9)) == (2, (1, 5.0), (0.0, 5.0))


def test_x_must_be_finite() -> None:
    for x in (nan, inf):
        with pytest.raises(ValueError, match="finite"):
            Pyramid().append(x, 1.0)
        with pytest.raises(ValueError, match="finite"):
            Pyramid().extend([1.0, x], [1.0, 1.0])


def test_a_span_is_joined_only_to_what_directly_follows() -> None:
    spans = series([1.0, 2.0, nan, 4.0, 5.0]).columns(0, 4, 5).spans
    assert [span and span.joined for span in spans] == [True, True, None, False, True]


def test_the_neighbour_is_at_least_one_point_away() -> None:
    pyramid = Pyramid()
    pyramid.extend([0, 10, 20, 400], [0.0] * 4)
    assert pyramid.neighbour(20, 1) == 400
    assert pyramid.neighbour(20, -1) == 10
    assert pyramid.neighbour(0, 18) == 20
    assert pyramid.neighbour(400, 1) is None and pyramid.neighbour(0, -1) is None


class Counted(array):
    """An array that counts the numbers that are read from it."""

    read = 0

    def __getitem__(self, key: Any) -> Any:
        found = super().__getitem__(key)
        Counted.read += len(found) if isinstance(key, slice) else 1
        return found


def test_a_draw_of_a_million_points_reads_few_numbers() -> None:
    pyramid = Pyramid()
    pyramid.extend(range(1_000_000), array("d", bytes(8_000_000)))
    pyramid._ys = Counted("d", pyramid._ys)
    pyramid._lows = [Counted("d", level) for level in pyramid._lows]
    pyramid._highs = [Counted("d", level) for level in pyramid._highs]
    Counted.read = 0
    pyramid.columns(0, 999_999, 400)
    levels = len(pyramid._lows) + 1
    assert 0 < Counted.read <= 400 * (2 * levels * 2 * FACTOR + 2)
    Counted.read = 0
    pyramid.bounds(1, 999_998)
    assert 0 < Counted.read <= 2 * levels * 2 * FACTOR


def test_the_ema_is_debiased_and_skips_gaps() -> None:
    ema = Ema(series([1.0, nan, 2.0]), 0.5)
    assert not ema.update()
    _, ys = ema.pyramid.points(0, 9)
    # s1 = .5 -> .5/.5; s2 = .25 + 1 = 1.25 -> 1.25/.75
    assert ys[0] == 1.0 and ys[2] == pytest.approx(1.25 / 0.75)
    assert ema.pyramid.gap_count == 1


@given(
    steps=st.lists(st.tuples(st.integers(0, 40), st.floats(-10, 10) | st.just(nan)), max_size=120),
    looks=st.sets(st.integers(0, 120)),
    limit=st.integers(1, 50),
)
def test_an_ema_that_follows_equals_one_made_at_the_end(
    steps: list[tuple[int, float]], looks: set[int], limit: int
) -> None:
    source = Pyramid()
    following = Ema(source, 0.6)
    for i, (x, y) in enumerate(steps):
        source.append(x, y)
        if i in looks:
            following.update(limit)
    for _ in range(len(steps) + 1):
        following.update(limit)
    at_once = Ema(source, 0.6)
    at_once.update()
    assert list(following.pyramid.points(0, 99)[0]) == list(source.points(0, 99)[0])
    pairs = zip(following.pyramid.points(0, 99)[1], at_once.pyramid.points(0, 99)[1], strict=True)
    assert all(a == pytest.approx(b, abs=1e-9, nan_ok=True) for a, b in pairs)


def test_an_average_settles_on_a_value_that_stays() -> None:
    source = series([1.0, 0.0] + [0.0] * 9 + [2.0] + [0.0] * 40)
    one_by_one, at_once = Ema(source, 0.6), Ema(source, 0.6)
    while one_by_one.update(1):
        pass
    at_once.update()
    ys = list(at_once.pyramid.points(0, 99)[1])
    assert list(one_by_one.pyramid.points(0, 99)[1]) == ys
    assert min(ys[:30]) > 0 and ys[30:] == [0.0] * 22  # 0.6^19 < 1e-4


def test_counts_and_evaluations_are_not_smoothed_at_first() -> None:
    assert default_weight("reward/mean") == 0.6
    assert default_weight("error/timeout") == default_weight("optim/skipped") == default_weight("eval/reward_mean") == 0


@given(
    st.lists(st.lists(st.floats(-5, 5) | st.just(nan), max_size=8), max_size=6), st.integers(2, 9), st.integers(0, 30)
)
def test_columns_that_are_asked_for_again_are_those_of_a_new_series(
    parts: list[list[float]], count: int, cut: int
) -> None:
    grown, ys = Pyramid(), list[float]()
    edges = [40 * k / count for k in range(count + 1)]
    for part in parts:
        grown.extend(range(len(ys), len(ys) + len(part)), part)
        ys += part
        assert grown.columns_at(list(edges)) == series(ys).columns_at(edges)
    grown.truncate(cut)
    assert grown.columns_at(edges) == series(ys[:cut]).columns_at(edges)


def test_a_point_more_looks_at_its_own_column_only(monkeypatch: pytest.MonkeyPatch) -> None:
    pyramid, edges = series([0.0] * 900), [float(x) for x in range(0, 1001, 10)]
    pyramid.columns_at(edges)
    asked: list[int] = []
    bounds = Pyramid._bounds
    monkeypatch.setattr(Pyramid, "_bounds", lambda self, *ends: asked.append(ends[0]) or bounds(self, *ends))
    pyramid.append(900, 1.0)
    assert pyramid.columns_at(edges).spans[90] is not None and len(asked) <= 2
    asked.clear()
    pyramid.columns_at(edges)
    assert not asked
