"""The run that is open, and its thread: begun once, and ended without losing what the run was asked for."""

from __future__ import annotations

import json
from pathlib import Path
from queue import Queue
from threading import Event

import pytest

from rltui.opened import OpenRun
from rltui.screens.messages import RunChanged, RunLost
from rltui.sources.local import LocalRunSource
from rltui.watch import RunWatcher
from tests.tui.app_driver import run_in
from tests.waiting import until


def opened(run: Path) -> OpenRun:
    return OpenRun(str(run), period_s=3600.0, did=lambda command, answer: None)


def test_it_is_read_by_one_thread_however_often_it_is_begun(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """By a key that comes before the first paint, and by the start that follows the paint."""
    started: list[RunWatcher] = []
    monkeypatch.setattr(RunWatcher, "start", lambda watcher: started.append(watcher))
    run = opened(run_in(tmp_path, "alpha"))
    run.begin(lambda message: None)
    run.begin(lambda message: None)
    assert len(started) == 1


@pytest.mark.parametrize("gone", [False, True])
def test_what_it_was_asked_for_before_it_was_closed_is_sent(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, gone: bool
) -> None:
    """The thread is in the middle of a slow read then; nobody may be there any more to be told."""
    folder, reads, may = run_in(tmp_path, "alpha", "running"), Event(), Event()
    metrics = LocalRunSource.metrics

    def slow(source: LocalRunSource, cursor: object = None) -> object:
        reads.set()
        may.wait(60)
        return metrics(source, cursor)

    def post(message: object) -> None:
        if gone and run.unsent != ["pause", "stop"]:
            raise RuntimeError("Event loop is closed")

    monkeypatch.setattr(LocalRunSource, "metrics", slow)
    run = opened(folder)
    run.begin(post)
    assert reads.wait(60)
    run.ask("pause")
    if not gone:
        run.ask("stop")
    run.close()
    assert run.unsent and not list((folder / "control").glob("*.json"))
    may.set()
    run.finish()
    until(lambda: not run.unsent)
    asked = [json.loads(path.read_text())["action"] for path in (folder / "control").glob("*.json")]
    assert sorted(asked) == (["pause"] if gone else ["pause", "stop"])


def test_a_read_that_failed_once_is_no_failure_after_the_next_look(tmp_path: Path) -> None:
    """Of a run that has ended, where nothing else is new."""
    told: Queue[object] = Queue()
    run = opened(run_in(tmp_path, "alpha"))
    run.begin(told.put)
    until(lambda: run.model is not None and run.model.status is not None and run.model.events)
    run.in_thread(lambda: 1 / 0)
    while not isinstance(told.get(timeout=60), RunLost):
        pass
    run.look_now()
    while not isinstance(told.get(timeout=60), RunChanged):
        pass
    until(lambda: not run.why)
    run.close()
