"""When trackers are told what, and what becomes of one that fails. Recorder and run directory are the real ones."""

import math
import threading

import pytest

from tests.config.texts import SMALL
from trainer.config import load_text
from trainer.learner.protocol import StepResult
from trainer.recorder import Recorder
from trainer.rollout.batch import Update
from trainer.rundir import RunReader, RunWriter
from trainer.trackers.base import RunFacts, Tracker, tag_list
from trainer.trackers.board import Trackers, trackers_of

LOADED = load_text(SMALL, "run.toml", environ={}, device="cpu", sets=["training.log_interval=2"])


class Notebook(Tracker):
    """Notes its rows; raises or hangs at the row of a given step."""

    def __init__(self, run=None, project="", *, raises_at=None, hangs_at=None):
        self.rows, self.closed, self.raises_at, self.hangs_at = [], False, raises_at, hangs_at
        self.never = threading.Event()

    def row(self, step, values):
        if step == self.raises_at:
            raise ConnectionError("no\nroute")
        if step == self.hangs_at:
            self.never.wait()
        self.rows.append((step, dict(values)))

    def close(self):
        self.closed = True


def test_a_row_is_the_mean_of_what_each_number_was_since_the_last():
    book = Notebook()
    trackers = Trackers({"book": lambda: book})
    trackers.add({"a": 1.0, "b": 5.0, "c": math.nan})
    trackers.add({"a": 2.0, "c": math.inf})
    trackers.row(2)
    trackers.send(0, {"eval/reward_mean": 0.5, "x": math.nan})
    trackers.add({"a": 7.0})
    assert trackers.close(3) == []
    assert book.rows == [(2, {"a": 1.5, "b": 5.0}), (0, {"eval/reward_mean": 0.5}), (3, {"a": 7.0})] and book.closed


def test_one_that_fails_or_hangs_is_off_and_the_others_go_on():
    book, broken, stuck = Notebook(), Notebook(raises_at=1), Notebook(hangs_at=1)

    def missing():
        raise ImportError("no module named wandb")

    # The last one takes all the time that there is.
    trackers = Trackers({"a": lambda: broken, "b": missing, "d": lambda: book, "c": lambda: stuck})
    for step in (1, 2):
        trackers.add({"loss": float(step)})
        trackers.row(step)
    failures = trackers.close(2, seconds=2.0)
    stuck.never.set()
    assert sorted(failures) == [
        "a failed and is off for the rest of the run: ConnectionError: no route",
        "b failed and is off for the rest of the run: ImportError: no module named wandb",
        "c did not finish in 2 s; its last rows may be lost",
    ]
    assert book.rows == [(1, {"loss": 1.0}), (2, {"loss": 2.0})]


def test_nothing_is_opened_for_a_run_that_tells_nothing():
    def never():
        raise AssertionError

    assert Trackers({"a": never}).close(0) == []


@pytest.fixture
def recorder_of(tmp_path):
    with RunWriter(tmp_path / "run", job_id="rl_0", label="x") as writer:
        yield lambda trackers: Recorder(writer, LOADED.derived, LOADED.config, trackers)


def step_of(recorder, step, **values):
    result = StepResult(step, {}, [])
    recorder.step_done(result, Update([]), values, iteration=step, lags=Lags(), seconds=1.0)


class Lags:
    max, of = 0, {}


def test_the_recorder_tells_a_row_every_log_interval_and_an_evaluation_at_once(recorder_of, tmp_path):
    book = Notebook()
    recorder = recorder_of(Trackers({"book": lambda: book}))
    recorder.metrics({"eval/reward_mean": 0.25}, iteration=0, eval_step=0)
    for step in (1, 2, 3):
        step_of(recorder, step, loss=float(step))
    recorder.close_trackers()
    assert book.rows == [(0, {"eval/reward_mean": 0.25}), (2, {"loss": 1.5}), (3, {"loss": 3.0})]


def test_a_failure_is_one_warning_of_the_run(recorder_of, tmp_path):
    book = Notebook(raises_at=2)
    recorder = recorder_of(Trackers({"wandb": lambda: book}))
    for step in range(1, 7):
        step_of(recorder, step, loss=float(step))
    recorder.close_trackers()
    [event] = [e for e in RunReader(tmp_path / "run").events() if e["type"] == "rl.warning"]
    assert event["data"]["code"] == "tracker_off" and "wandb failed and is off" in event["message"]


def test_none_is_on_by_default_and_one_whose_package_is_missing_says_what_to_install(tmp_path, monkeypatch):
    facts = RunFacts("rl_0", "x", tmp_path, {}, {})
    assert trackers_of(LOADED.config, facts).close(0) == []
    monkeypatch.setattr("trainer.config.launch.find_spec", lambda name: None)
    loaded = load_text(
        SMALL, "run.toml", environ={}, device="cpu", sets=["logging.tensorboard=true", 'logging.trackio="mine"']
    )
    problems = {p.key: p.why for p in loaded.launch_problems() if p.code == "tracker"}
    assert problems == {
        "logging.tensorboard": "the package tensorboard is not installed here: pip install 'rltui[tensorboard]'",
        "logging.trackio": "the package trackio is not installed here: pip install 'rltui[trackio]'",
    }


def test_tags_as_texts():
    assert tag_list({"team": "mine", "stage": 1, "data": ["a", "b"]}) == ["team=mine", "stage=1", "data=a,b"]
