"""Readings become states, rules that fail or were muted stay in sight, and a look costs what its windows cost."""

from __future__ import annotations

from dataclasses import replace
from math import inf, nan

import pytest

from rltui.doctor.doctor import Doctor, counts, speaking
from rltui.doctor.maths import slope
from rltui.doctor.record import Record
from rltui.doctor.rule import Reading, Rule, State, over, rule
from rltui.doctor.rules import RULES
from tests.doctor.records import BY_ID, EVALUATIONS, HEALTHY, record, series


def scripted(values: str, steady: int = 3) -> tuple[Rule, Record]:
    """A rule that says a(ct), w(atch), o(k) or n(o data) at step i + 1 by values[i]."""
    kinds = {"a": State.ACT, "w": State.WATCH, "o": State.OK, "n": State.NONE}

    @rule("D99", "script", "none", ("training.group_size",), metrics=("x",), steady=steady)
    def check(record: Record, band) -> Reading:
        return Reading(kinds[values[record.step - 1]], float(record.step), says=f"step {record.step}")

    return check, Record(times=series([float(i) for i in range(len(values))], len(values)))


def states_by_step(values: str, steady: int = 3) -> str:
    check, whole = scripted(values, steady)
    doctor = Doctor({}, [check])
    letters = {State.ACT: "a", State.WATCH: "w", State.OK: "o", State.NONE: "n"}
    return "".join(letters[doctor.examine(whole.at(step))[0].state] for step in range(1, len(values) + 1))


@pytest.mark.parametrize(
    ("readings", "states"),
    [
        ("owowow", "oooooo"),  # a wavering one never changes
        ("oowwwoww", "oooowwww"),  # the third in a row
        ("oowawwww", "ooooooww"),  # three that say the same
        ("nnwwoooo", "nnwwwwoo"),  # the first that says anything counts at once
        ("oonnno", "oooono"),
    ],
)
def test_a_state_changes_after_three_readings_in_a_row(readings, states):
    assert states_by_step(readings) == states


def test_what_must_never_happen_counts_at_once():
    assert states_by_step("oaoo", steady=1) == "oaoo"


def test_looks_between_two_steps_are_no_readings():
    check, whole = scripted("oooaaa")
    doctor = Doctor({}, [check])
    doctor.examine(whole.at(3))
    for _ in range(5):
        assert doctor.examine(whole.at(4))[0].state is State.OK
    doctor.examine(whole.at(5))
    assert doctor.examine(whole.at(6))[0].state is State.ACT


def test_many_steps_at_once_are_as_many_readings():
    """A viewer that comes late, or reads slowly, says what one says that was there all the time."""
    readings = "oooowwwww"
    check, whole = scripted(readings)
    late = Doctor({}, [check]).examine(whole.at(len(readings)))[0]
    assert late.state is State.WATCH and states_by_step(readings)[-1] == "w"
    doctor = Doctor({}, [check])
    doctor.examine(whole.at(2))
    assert doctor.examine(whole.at(9))[0].state is State.WATCH


def test_steps_that_are_played_again_are_read_anew():
    check, whole = scripted("ooooaaaa")
    doctor = Doctor({}, [check])
    assert doctor.examine(whole.at(8))[0].state is State.ACT
    assert doctor.examine(whole.at(4))[0].state is State.OK


def test_a_rule_that_fails_is_broken_and_says_so():
    @rule("D98", "fault", "none", ())
    def faulty(record: Record, band) -> Reading:
        raise KeyError("reward\x1b]52;c;x\x07/mean")

    content, whole = scripted("ooo")
    doctor = Doctor({}, [content, faulty])
    found = doctor.examine(whole.at(3))
    assert [(f.rule.id, f.state) for f in found] == [("D98", State.BROKEN), ("D99", State.OK)]
    assert "KeyError" in found[0].reading.says and "\x1b" not in found[0].reading.says
    assert [f.rule.id for f in speaking(found)] == ["D98"]


def test_a_muted_rule_is_seen_and_not_heard():
    bad = record({"reward/frac_zero_std": 0.95})
    (worst, *_) = Doctor().examine(bad, {"D01": "the tasks are new"})
    assert (worst.rule.id, worst.state, worst.muted) == ("D01", State.ACT, "the tasks are new")
    found = Doctor().examine(bad, {"D01": "the tasks are new"})
    assert speaking(found) == []
    assert counts(found) == {"act": 0, "broken": 0, "watch": 0, "ok": len(RULES) - 1, "no data": 0, "muted": 1}


def test_findings_come_worst_first():
    found = Doctor().examine(record({"canary/failed": 2.0, "time/weight_sync": 2.0}))
    assert [f.rule.id for f in speaking(found)] == ["D18", "D19"]
    assert found[0].line == "weights canary 2 failed (want 0 failed)"


# The record


def test_windows_end_at_the_step_and_pass_over_gaps():
    ys = [float(i) if i % 7 else nan for i in range(1, 101)]
    here = Record(series={"x": series(ys, 100)}, step=50)
    finite = [(float(i), float(i)) for i in range(1, 51) if i % 7]
    assert here.within("x", 20) == [point for point in finite if point[0] > 30]
    assert here.recent_points("x", 20) == [point for point in finite if point[0] > 30]
    assert here.first("x", 5) == [1.0, 2.0, 3.0, 4.0, 5.0]
    assert here.count("x") == 50 and here.gaps("x", 10) == 2  # steps 42 and 49
    assert here.at(10).recent("x", 3) == [8.0, 9.0, 10.0]
    assert replace(here, whole=False).first("x", 5) == []
    assert here.recent("y", 5) == here.within("y", 5) == here.first("y", 5) == []


def test_shares_are_of_the_same_steps():
    here = Record(series={"part": series({2: 1.0, 4: 3.0}), "all": series({1: 9.0, 2: 4.0, 4: 4.0})}, step=4)
    assert here.share("part", "all", 10) == pytest.approx(4 / 8)
    assert here.share("part", "none", 10) is None


def test_slope_is_that_of_numpy():
    import numpy as np

    random = np.random.default_rng(1)
    xs = np.arange(40.0)
    ys = 0.3 * xs + random.normal(0, 2, 40)
    (rise, _), covariance = np.polyfit(xs, ys, 1, cov=True)
    found = slope(xs.tolist(), ys.tolist())
    assert found is not None
    assert found == pytest.approx((rise, covariance[0, 0] ** 0.5))
    assert slope([1.0, 1.0, 1.0], [1.0, 2.0, 3.0]) is None


def test_a_long_run_costs_no_more_than_a_short_one():
    """Counted, not timed: points that rules take out of the series."""

    class Counting:
        def __init__(self, steps: int) -> None:
            self.inner, self.taken = series([0.5 + 0.01 * (i % 5) for i in range(steps)], steps), 0

        def __getattr__(self, name: str):
            return getattr(self.inner, name)

        def points(self, start: int, end: int):
            self.taken += end - start
            return self.inner.points(start, end)

    def taken(steps: int) -> int:
        whole = record()
        made = {name: Counting(steps) for name in whole.series}
        times = series([6.0 * i for i in range(steps)], steps)
        doctor = Doctor()
        doctor.examine(replace(whole, series=made, times=times, step=steps - 1))
        before = sum(each.taken for each in made.values())
        doctor.examine(replace(whole, series=made, times=times, step=steps))
        return sum(each.taken for each in made.values()) - before

    assert taken(20_000) <= taken(2_000) < 10_000


def test_grades():
    assert [over(x, 0.3, 0.8) for x in (0.3, 0.31, 0.81)] == [State.OK, State.WATCH, State.ACT]
    assert over(inf, 1.0) is State.WATCH


def test_before_the_first_step_each_look_is_a_reading():
    """A judge may fail every try of a run that closes no iteration: no step would ever bring the reading."""
    never = {name: None for name in (*HEALTHY, *EVALUATIONS)}
    doctor = Doctor(rules=[BY_ID["D28"]])
    (quiet,) = doctor.examine(record(never, step=0, judge_calls=()))
    (found,) = doctor.examine(record(never, step=0, judge_calls=[(1, "judge_unparsable")] * 30))
    assert (quiet.state, found.state) == (State.NONE, State.ACT)
