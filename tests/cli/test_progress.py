"""Lines of progress from statuses and metrics: pure functions."""

import io

import pytest

from rltui.cli.follow import Follower, ending
from rltui.cli.progress import Printer, step_line
from rltui.model.doing import doing
from rltui.sources.base import Slice
from rltui.words import duration


@pytest.mark.parametrize(
    ("seconds", "text"),
    [
        (None, "-"),
        (-3, "0 s"),
        (41.4, "41 s"),
        (59.6, "1 m 00 s"),
        (125, "2 m 05 s"),
        (11_520, "3 h 12 m"),
        (187_200, "2 d 04 h"),
    ],
)
def test_duration(seconds, text):
    assert duration(seconds) == text


def test_a_step_shows_what_it_has_and_leaves_out_the_rest():
    status = {"totals": {"steps": 24, "iterations": 12}, "eta_s": 130}
    row = {
        "step": 4,
        "iteration": 2,
        "reward/mean": 0.41234,
        "optim/grad_norm": 0.5131,
        "gspo/clip_frac_low": 0.01,
        "gspo/clip_frac_high": 0.04,
        "off_policy/mean": 1.5,
        "throughput/samples_per_sec": 2.1,
    }
    assert step_line(row, status) == (
        "step 4/24  iteration 2/12  reward 0.412  grad 0.513  clip 0.05  lag 1.5  2.1 samples/s  left 2 m 10 s"
    )
    assert step_line({"step": 3, "iteration": 2}, {}) == "step 3  iteration 2"


def test_a_skipped_step_has_no_gradient_and_is_still_a_line():
    assert step_line({"step": 1, "iteration": 1, "optim/skipped": 1.0}, {}) == "step 1"


@pytest.mark.parametrize(
    ("status", "text"),
    [
        (None, "starting"),
        ({"state": "starting", "phase": "starting"}, "starting"),
        (
            {
                "state": "starting",
                "phase": "starting",
                "waiting": {"for": "engine", "on": "engine and learner load the weights", "since": 59},
            },
            "engine and learner load the weights (41 s)",
        ),
        ({"state": "running", "phase": "evaluating"}, "evaluating"),
        (
            {"state": "running", "phase": "waiting", "waiting": {"for": "batch", "since": 99.5}},
            "it waits for batch",
        ),
        (
            {"state": "paused", "phase": "paused", "paused": {"reason": "disk_full", "since": 40}},
            "paused: disk_full (1 m 00 s)",
        ),
        (
            {"state": "paused", "paused": {"reason": "request", "by": {"user": "ann", "host": "gpu7", "client": "c"}}},
            "paused: request by ann@gpu7",
        ),
        (
            {"state": "paused", "paused": {"reason": "request", "by": {"user": None, "client": "rltui (bob@laptop)"}}},
            "paused: request by rltui (bob@laptop)",
        ),
        ({"state": "running", "phase": "\x1b[2Jtraining"}, "training"),
        (
            {"state": "running", "phase": "training", "silent": True},
            "playing episodes; no sign of life for a minute",
        ),
        ({"state": "running", "phase": "training", "pipeline": {"learner": "busy"}}, "learning"),
        ({"state": "running", "phase": "training", "pipeline": {"sync": "updating"}}, "syncing weights"),
    ],
)
def test_what_a_run_does_now(status, text):
    assert doing(status, now=100.0) == text


def test_an_ending_says_cause_and_remedy():
    status = {
        "state": "failed",
        "end_reason": "error",
        "step": 3,
        "totals": {"steps": 24},
        "elapsed_s": 61,
        "error": {"code": "task_app_down", "message": "it is down", "hint": "start it"},
        "results": {"evaluation": {"first": 0.25, "last": None}},
    }
    assert ending(status) == ["failed: 3 of 24 steps in 1 m 01 s", "cause: it is down", "to do: start it"]


def test_an_ending_without_a_status():
    assert ending({"state": "failed", "error": {"message": "m", "hint": None}}) == ["failed", "cause: m"]


def test_a_stream_that_is_no_terminal_gets_no_live_line():
    stream = io.StringIO()
    printer = Printer(stream)
    printer.rewrite("live")
    printer.keep("kept")
    printer.close()
    assert stream.getvalue() == "kept\n"


class _Place:
    """A source of statuses alone."""

    def __init__(self, *statuses: dict) -> None:
        self.left = list(statuses)

    def status(self) -> dict:
        return self.left.pop(0)

    def events(self, cursor=None) -> Slice:
        return Slice([], None)

    metrics = events


def test_each_thing_that_it_waits_for_is_told_once():
    stream = io.StringIO()
    engine = {"state": "starting", "waiting": {"for": "engine", "on": "engine and learner load the weights"}}
    place = _Place({"state": "starting"}, engine, {"state": "starting"}, {"state": "evaluating"})
    Follower(place, Printer(stream), look_s=0.0).run(until=lambda status: not place.left)
    assert stream.getvalue().splitlines() == ["starting", "engine and learner load the weights", "evaluating"]
