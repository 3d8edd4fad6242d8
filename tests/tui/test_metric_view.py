"""How metrics are ordered, counted and placed along a run, and what was done to it as marks."""

from __future__ import annotations

from math import inf

import pytest

from rltui.charts.parts import Mark
from rltui.model.along import Along, written
from rltui.model.find import Finder, FindError
from rltui.model.marks import marks
from rltui.model.metric_view import Row, numbers, ordered, rows, values
from rltui.model.metrics import MetricStore
from rltui.screens.monitor.limits import limits_of

STATUS = {
    "created_at": "2025-06-15T12:00:00.000Z",  # epoch 1_749_988_800
    "totals": {"steps": 8, "iterations": 4, "episodes": 32},
}


def store_of(steps: int, *, lengths: bool = False) -> MetricStore:
    """`steps` steps of 10 s, two of them an iteration; the episodes of iteration i have 100·i tokens."""
    store = MetricStore()
    for step in range(1, steps + 1):
        line = {"attempt": 1, "step": step, "iteration": (step + 1) // 2, "time": 1_749_988_800.0 + 10 * step}
        line["optim/lr"] = float(step)
        if lengths or step % 2 == 0:
            line["length/mean"] = 100.0 * ((step + 1) // 2)
        store.add([line])
    return store


def test_groups_stand_in_the_order_in_which_they_are_looked_at() -> None:
    names = ["system/cpu", "zebra/x", "reward/std", "entropy", "reward/mean", "eval/reward_mean", "reward/env"]
    assert ordered(names) == [
        *("reward/mean", "reward/std", "reward/env", "eval/reward_mean", "entropy", "system/cpu", "zebra/x")
    ]


def test_pins_come_first_folds_hide_and_the_filter_keeps() -> None:
    names = ["reward/mean", "reward/std", "gspo/loss", "gspo/kl"]
    found = rows(names, pins=["gspo/kl", "gone"], folded=["reward"])
    assert found == [
        Row("pinned", count=1),
        Row("pinned", "gspo/kl"),
        Row("reward", count=2),
        Row("gspo", count=1),
        Row("gspo", "gspo/loss"),
    ]
    assert [row.name for row in rows(names, finder=Finder("^gspo/.$", regex=True))] == []
    assert [row.name for row in rows(names, finder=Finder("LOSS|STD", regex=True))] == []  # capitals are minded
    assert [row.name for row in rows(names, finder=Finder("loss|std", regex=True))][1::2] == ["reward/std", "gspo/loss"]
    with pytest.raises(FindError, match="column 3"):
        Finder("a|[", regex=True)
    with pytest.raises(FindError, match="for ever"):
        Finder("(a+)+$", regex=True)


def test_values_that_are_not_finite_are_counted_and_never_part_of_a_bound() -> None:
    store = MetricStore()
    for step, value in enumerate([1.0, inf, 3.0, -1.0], 1):
        store.add([{"attempt": 1, "step": step, "gspo/loss": value}])
    store.add([{"attempt": 1, "step": 5, "nonfinite": ["gspo/loss"]}])
    found = numbers(store, "gspo/loss")
    assert (found.low, found.high, found.points, found.nonfinite) == (-1.0, 3.0, 5, 2)
    assert found.last is not None and found.last != found.last and found.last_step == 5.0
    # 0.4·(1, 3, -1) weighed 0.36, 0.6, 1 over their sum: the newest counts most
    assert found.ema is not None and found.ema.last == pytest.approx((0.36 * 1 + 0.6 * 3 - 1) / 1.96)
    assert values(store, "gspo/loss", after=3) == [(4.0, -1.0), (5.0, None)]
    later = numbers(store, "gspo/loss", after=3)
    assert (later.low, later.high, later.points, later.nonfinite) == (-1.0, -1.0, 2, 1)
    store.rewind(-1)
    empty = numbers(store, "gspo/loss")
    assert (empty.last, empty.low, empty.points) == (None, None, 0)


@pytest.mark.parametrize("lengths", [False, True])
def test_a_step_has_a_time_tokens_and_episodes(lengths: bool) -> None:
    store = store_of(4, lengths=lengths)
    along = Along(store)
    assert along.at("tokens", 4) is None and along.at("episodes", 4) is None
    along.update(STATUS)
    assert along.at("time", 3) == 30.0 and along.at("episodes", 3) == 12.0
    assert along.at("tokens", 4) == 8 * 100 + 8 * 200
    assert along.at("tokens", 0) == 0.0
    store.add(
        [{"attempt": 1, "step": step, "iteration": 3, "time": 0.0, "length/mean": 300.0} for step in (5, 6)][
            0 if lengths else 1 :
        ]
    )
    along.update(STATUS)
    assert along.at("tokens", 6) == 8 * 600
    store.rewind(2)
    along.update(STATUS)
    assert along.at("tokens", 6) == 800
    store.add([{"attempt": 2, "step": 4, "iteration": 2, "time": 1_749_990_000.0, "length/mean": 50.0}])
    along.update(STATUS)
    assert along.at("tokens", 4) == 1200
    assert along.at("time", 4) == 1200.0
    assert [written(name, along.at(name, 4)) for name in ("time", "tokens", "episodes")] == ["20 m 00 s", "1.20k", "16"]
    assert along.axis("tokens").label(4) == "1.20k" and written("time", None) == ""


def test_a_series_by_tokens_has_the_same_values_in_other_places() -> None:
    store = store_of(4)
    along = Along(store)
    along.update(STATUS)
    by_time = along.series("time", store.series["optim/lr"])
    assert by_time.points(0, 9)[0].tolist() == [10.0, 20.0, 30.0, 40.0]
    assert by_time.points(0, 9)[1].tolist() == [1.0, 2.0, 3.0, 4.0]
    assert along.series("step", by_time) is by_time
    assert len(Along(MetricStore()).series("tokens", by_time)) == 0


def test_what_a_person_did_leaves_a_mark() -> None:
    def event(type: str, step: int, **data: object) -> dict[str, object]:
        return {"type": type, "step": step, "attempt": 2, "data": data}

    found = marks(
        [
            event("rl.control.done", 9, action="evaluate"),
            event("rl.control.done", 5, action="set", new={"training.learning_rate": 3e-5, "rollout.max_turns": 4}),
            event("rl.control.done", 6, action="pause"),
            event("rl.control.accepted", 6, action="checkpoint"),
            event("rl.resumed", 8, from_step=7),
            {"type": "rl.control.done", "step": None, "data": None},
        ]
    )
    assert found == (
        Mark(5.0, "learning_rate 3.0e-05, max_turns 4"),
        Mark(6.0, "pause"),
        Mark(7.0, "attempt 2"),
        Mark(9.0, "evaluate"),
    )
    assert (
        "\x1b" not in marks([event("rl.control.done", 1, action="set", new={"a.\x1b[31mb": "\x1b]0;x\x07"})])[0].label
    )


@pytest.mark.parametrize(
    ("text", "limits"),
    [("", (None, None)), ("0 1", (0.0, 1.0)), ("- 1e3", (None, 1000.0)), ("-2", (-2.0, None)), ("0, 1", (0.0, 1.0))],
)
def test_limits_are_two_numbers_of_which_each_may_be_free(text: str, limits: tuple[float | None, float | None]) -> None:
    assert limits_of(text) == limits


@pytest.mark.parametrize("text", ["1 0", "1 1", "a", "nan", "0 inf", "1 2 3"])
def test_limits_that_are_none_are_refused_with_a_sentence(text: str) -> None:
    with pytest.raises(ValueError, match=r"number|below"):
        limits_of(text)
