"""The threads that look: what they tell, and what they do not."""

from __future__ import annotations

import threading
from queue import Queue

import pytest

from rltui.sources.base import Unreadable
from rltui.watch import FolderWatcher, Watcher
from tests.tui.app_driver import run_in

WAIT_S = 60.0


class Failing(Watcher):
    """Fails at its first look, then does not."""

    def __init__(self, told: Queue) -> None:
        super().__init__("test", told.put)
        self.looks = Queue()
        self._failed_once = False

    def look(self) -> float:
        self.looks.put(threading.current_thread())
        if not self._failed_once:
            self._failed_once = True
            raise OSError(5, "Input/output error", "/somewhere")
        return 3600.0


def test_a_look_that_fails_is_told_and_tried_again():
    told: Queue = Queue()
    watcher = Failing(told)
    watcher.start()
    assert told.get(timeout=WAIT_S) == "/somewhere: Input/output error"
    watcher.looks.get(timeout=WAIT_S)
    watcher.soon()
    watcher.looks.get(timeout=WAIT_S)
    assert told.empty()
    watcher.stop()
    watcher.join(WAIT_S)
    assert not watcher.is_alive()


def test_a_job_is_done_in_the_thread_without_a_look():
    watcher, done = Failing(Queue()), Queue()
    watcher._failed_once = True
    watcher.start()
    watcher.looks.get(timeout=WAIT_S)
    watcher.do(lambda: done.put(threading.current_thread()))
    assert done.get(timeout=WAIT_S) is watcher
    assert watcher.looks.empty()
    watcher.stop()


def test_a_job_that_fails_is_told():
    told: Queue = Queue()
    watcher = Failing(told)
    watcher._failed_once = True
    watcher.start()
    watcher.do(lambda: 1 / 0)
    assert "division by zero" in told.get(timeout=WAIT_S)
    watcher.stop()


def test_a_job_behind_one_that_fails_does_not_wait_for_the_next_look():
    told, done = Queue(), Queue()
    watcher = Failing(told)
    watcher._failed_once = True
    watcher.do(lambda: 1 / 0)
    watcher.do(lambda: done.put(len(watcher._jobs)))
    waited: list[float] = []
    wait = watcher._wake.wait
    watcher._wake.wait = lambda seconds: (waited.append(seconds), wait(seconds))[-1]
    watcher.start()
    assert done.get(timeout=WAIT_S) == 0 and "division by zero" in told.get(timeout=WAIT_S)
    assert waited[0] == 0.0
    watcher.stop()


def test_a_folder_that_could_not_be_listed_for_a_while_is_told_anew(tmp_path):
    """Who is told of the failure shows no run any more."""
    found: Queue = Queue()
    folder = tmp_path / "runs"
    first = run_in(folder, "one")
    watcher = FolderWatcher(folder, found=lambda *what: found.put(what), failed=found.put)
    watcher.look()
    found.get_nowait()
    folder.rename(tmp_path / "aside")
    folder.write_text("")
    with pytest.raises(Unreadable):
        watcher.look()
    folder.unlink()
    (tmp_path / "aside").rename(folder)
    watcher.look()
    rows, gone, scanned, total = found.get_nowait()
    assert [row.path for row in rows] == [str(first)] and not gone and (scanned, total) == (1, 1)


def test_a_folder_tells_of_new_and_gone_runs_and_is_silent_otherwise(tmp_path, monkeypatch):
    monkeypatch.setattr("rltui.watch.TELL_S", 600.0)  # a first look that takes longer tells what it has so far
    found: Queue = Queue()
    first = run_in(tmp_path, "one", number=1)
    watcher = FolderWatcher(tmp_path, found=lambda *what: found.put(what), failed=found.put)
    assert watcher.look() > 1  # nothing runs: there is no hurry
    rows, gone, scanned, total = found.get_nowait()
    assert [row.path for row in rows] == [str(first)] and not gone and (scanned, total) == (1, 1)
    watcher.look()
    assert found.empty()
    second = run_in(tmp_path, "two", kind="running", number=2)
    assert watcher.look() <= 1
    rows, gone, _, _ = found.get_nowait()
    assert [row.path for row in rows] == [str(second)]
    first.rename(tmp_path / ".hidden")
    watcher.look()
    rows, gone, _, _ = found.get_nowait()
    assert not rows and gone == [str(first)]
