from __future__ import annotations

import math
from typing import Any

from rltui.model.metrics import MetricStore


def line(step: int, attempt: int = 1, **values: Any) -> dict[str, Any]:
    return {"attempt": attempt, "step": step, "iteration": step // 2, "epoch": 1, "time": 100.0 + step} | values


def points(store: MetricStore, name: str) -> list[tuple[float, float]]:
    series = store.series[name]
    xs, ys = series.points(0, len(series))
    return list(zip(xs, ys, strict=True))


def test_a_later_value_of_a_step_wins_within_a_batch_and_over_batches() -> None:
    store = MetricStore()
    assert store.add([line(1, a=1.0), line(1, a=2.0, b=7), line(2, a=3.0)])
    assert store.add([line(2, a=4.0)]) and not store.add([])
    assert points(store, "a") == [(1, 2), (2, 4)] and points(store, "b") == [(1, 7)]
    assert store.latest == {"a": 4.0, "b": 7.0} and store.step == 2
    assert store.value_at("a", 1) == 2.0 and store.value_at("none", 1) is None
    xs, ys = store.labels["time"].points(0, 9)
    assert list(xs) == [1, 2] and list(ys) == [101, 102]


def test_evaluations_stand_at_the_step_of_their_weights() -> None:
    store = MetricStore()
    store.add([line(0, **{"eval_step": 0, "eval/reward_mean": 0.1}), line(1, loss=1.0)])
    store.add([line(9, **{"eval_step": 4, "eval/reward_mean": 0.5})])
    assert points(store, "eval/reward_mean") == [(0, 0.1), (4, 0.5)]
    assert store.step == 1 and "eval_step" not in store.series
    store.add([line(9, attempt=2, **{"eval_step": 4, "eval/reward_mean": 0.6})])  # played again
    assert points(store, "eval/reward_mean")[-1] == (4, 0.6)


def test_rewind_forgets_what_came_after_and_goes_on() -> None:
    store = MetricStore()
    store.add(line(step, a=float(step), **({"b": 1.0} if step == 9 else {})) for step in range(1, 11))
    store.rewind(6)
    assert points(store, "a")[-1] == (6, 6) and store.latest == {"a": 6.0} and store.step == 6
    assert len(store.labels["time"]) == 6
    store.add([line(7, attempt=2, a=70.0)])
    assert points(store, "a")[-2:] == [(6, 6), (7, 70)] and store.unordered == 0
    store.rewind(-1)
    assert len(store.series["a"]) == 0 and store.latest == {}


def test_what_is_not_finite_is_a_gap() -> None:
    store = MetricStore()
    store.add([line(1, a=1.0), line(2, nonfinite=["a", 3, "step"]), line(3, a=3.0), line(4, a=10**400)])
    series = store.series["a"]
    assert len(series) == 4 and series.gap_count == 2 and series.bounds(0, 9) == (1, 3)
    assert math.isnan(store.latest["a"]) and store.names() == ["a"]


def test_hostile_lines() -> None:
    store = MetricStore(max_names=5)
    store.add([line(1, **{f"m{i}": i for i in range(50)})])
    assert len(store) == 5 and len(store.refused) == 5
    store = MetricStore()
    store.add([line(1, **{"\x1b[31mred\x07": 1.0, "red": 2.0, "\x1b]0;x\x07": 3.0, "x" * 9_000: 4.0})])
    store.add([line(2, **{"\x1b[31mred\x07": 5.0, "red": 6.0, "bool": True, "text": "1"})])
    assert store.names()[0] == "red" and points(store, "red") == [(1, 2), (2, 6)]
    assert len(store) == 2 and max(map(len, store.names())) <= 121
    bad: list[Any] = [
        {},
        {"step": "1", "a": 1},
        {"step": -1, "a": 1},
        {"step": True, "a": 1},
        {"step": 1 << 60, "a": 1},
    ]
    assert not store.add(bad) and "a" not in store.series
    store.add([line(5, a=1.0, nonfinite="a"), line(3, a=9.0), line(6, a=2.0, eval_step=math.inf)])
    assert points(store, "a") == [(5, 1), (6, 2)] and store.unordered == 1
