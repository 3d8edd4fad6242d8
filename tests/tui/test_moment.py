"""A time as a person types it, against the run it is meant for."""

from __future__ import annotations

import time
from types import SimpleNamespace

import pytest

from rltui.model.log_lines import written
from rltui.model.moment import moment


@pytest.fixture
def model(monkeypatch):
    monkeypatch.setenv("TZ", "UTC")
    time.tzset()
    steps = {3.0: 1000.0}
    label = SimpleNamespace(at=lambda step: (3.0, steps[3.0]))
    status = {"finished_at": "2025-06-15T15:16:30Z"}
    yield SimpleNamespace(status=status, metrics=SimpleNamespace(labels={"time": label}))
    monkeypatch.undo()
    time.tzset()


@pytest.mark.parametrize(
    ("text", "iso"),
    [
        ("15:10", "2025-06-15T15:10:00Z"),
        (" 15:16:30 ", "2025-06-15T15:16:30Z"),
        ("15:17", "2025-06-14T15:17:00Z"),  # later than its end: the day before
        ("2025-06-15 15:10", "2025-06-15T15:10:00Z"),
    ],
)
def test_a_clock_means_its_last_time_within_the_run(model, text, iso):
    assert moment(text, model) == written(iso)


def test_a_step_means_when_it_was_done(model):
    assert moment("step 3", model) == moment("STEP3", model) == 1000.0
    with pytest.raises(ValueError, match="no step 4"):
        moment("step 4", model)


@pytest.mark.parametrize("text", ["", "noon", "25:00", "12:60", "12", "step x"])
def test_what_is_no_time_says_what_may_be_given(model, text):
    with pytest.raises(ValueError, match="HH:MM"):
        moment(text, model)


def test_the_time_of_a_line(model):
    assert written("2025-06-15T15:00:00.250Z INFO a: b") == written("2025-06-15 15:00:00.250+00:00 x")
    assert written("2025-06-15 17:00:00,250+02:00 x") == written("2025-06-15T15:00:00.250Z")
    assert written("2025-06-15 15:00:00,999 x") == written("2025-06-15T15:00:00Z")  # of this machine, in seconds
    assert written("step 3") is written("2025-99-15T15:00:00Z") is None
