"""`rltui smoke ... --tui` in a pseudo-terminal: it opens on the test, keys work, and leaving ends what was started."""

from __future__ import annotations

import contextlib
import signal

import psutil

from tests.tui.pty_app import RLTUI, SIZE, assert_put_back, escape
from tests.waiting import until


def task_apps(pid: int) -> list[psutil.Process]:
    found = []
    for child in psutil.Process(pid).children():
        with contextlib.suppress(psutil.NoSuchProcess):  # it may end meanwhile
            if "trainer.taskapp" in child.cmdline():
                found.append(child)
    return found


def over(process: psutil.Process) -> bool:
    """Ended, though perhaps nobody reaps it: after a signal that leaves no time that is a moment after its parent."""
    try:
        return not process.is_running() or process.status() == psutil.STATUS_ZOMBIE
    except psutil.NoSuchProcess:
        return True


def test_a_test_is_run_and_unfolded_and_quitting_ends_the_task_app(terminal):
    session = terminal(
        [*RLTUI, "smoke", "--url", "builtin:guess", "--tui", "--seeds", "0:2", "--group-size", "2"], **SIZE
    )
    session.wait_for("target builtin:guess")
    session.send("r")
    session.wait_for("ready with warnings: 1 warning", 120)
    assert "4 episodes" in session.screen()
    session.send("g", "enter")
    session.wait_for("> GET http://127.0.0.1")
    (served,) = task_apps(session.pid)
    session.send("q")
    assert session.wait(60.0) == 0
    assert_put_back(session)
    until(lambda: over(served))


def test_a_hang_up_while_a_person_plays_ends_the_task_app_too(terminal):
    session = terminal([*RLTUI, "smoke", "--url", "builtin:guess", "--tui"], **SIZE)
    session.wait_for("target builtin:guess")
    session.send("H")
    session.wait_for("text or an action", 120)
    session.send("1", "0", "enter")
    session.wait_for("turn 2")
    (served,) = task_apps(session.pid)
    escape(session)
    session.send("?")
    session.wait_for("Type your reply to the call that waits.")
    session.kill(signal.SIGHUP)
    session.wait(60.0)
    until(lambda: over(served))
