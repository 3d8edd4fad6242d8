"""`rltui demo` and `rltui train --tui` on a terminal: the interface on the run, and what is printed after it."""

from __future__ import annotations

import json
import re
import sys
from pathlib import Path

import pytest

from tests.cli.conftest import CONFIG, DRIVER
from tests.cli.conftest import ROOT as REPOSITORY

ANSWERS = "answers to held-out questions"


@pytest.fixture
def start(terminal, tmp_path):
    """`rltui ARGS` in a terminal, in an empty folder; the coordinator is the fake one."""

    def run(*args: str, mode: str = "ok", steps: int = 4, pace: float = 0.02):
        (tmp_path / "my.toml").write_text(CONFIG)
        env = {"FAKE_MODE": mode, "FAKE_STEPS": str(steps), "FAKE_PACE_S": str(pace), "PYTHONPATH": str(REPOSITORY)}
        env |= {"HOME": str(tmp_path), "XDG_STATE_HOME": str(tmp_path / "state"), "LANG": "C.UTF-8"}
        return terminal([sys.executable, str(DRIVER), *args], columns=120, rows=36, env=env, cwd=tmp_path)

    return run


def shows(text: str):
    return lambda session: text in session.screen()


def printed(session) -> str:
    """What stands on the terminal after the interface has left it."""
    return re.sub(r"\x1b\[[0-9;?]*[a-zA-Z]", "", session.raw.decode(errors="replace").rpartition("\x1b[?1049l")[2])


def state_of(run: Path) -> str:
    return json.loads((run / "status.json").read_bytes())["state"]


def test_the_demo_opens_on_its_run_and_prints_the_answers_when_it_is_left(start, tmp_path):
    session = start("demo", "--run-dir", "d")
    session.wait_for(shows("SUCCEEDED"))
    session.wait_for(shows("step 4/4"))
    session.send("q")  # nothing is asked: the run has ended
    assert session.wait() == 0
    text = printed(session)
    assert "held-out reward: 0.250 before, 0.500 after" in text and ANSWERS in text and "rltui show " in text


@pytest.mark.parametrize(
    ("keys", "said", "code"),
    [
        (["enter"], "goes on; `", 0),
        (["j", "enter"], "to stop; `", 0),
        (["j", "j", "enter", "k"], "is killed; `", 3),
    ],
)
def test_leaving_a_live_demo_asks_and_does_what_is_chosen(start, tmp_path, keys, said, code):
    session = start("demo", "--run-dir", "d", steps=1_000_000)
    session.wait_for(shows("RUNNING"))
    session.send("q")
    session.wait_for(shows("goes on without the interface"))
    for key in keys:
        session.send(key)
    assert session.wait() == code
    assert said in printed(session) and ANSWERS not in printed(session)
    if keys != ["enter"]:
        return
    assert state_of(tmp_path / "d") == "running"
    stop = start("stop", "d")
    assert stop.wait() in (0, 3)
    assert state_of(tmp_path / "d") == "cancelled"


def test_train_in_the_interface_ends_with_the_code_of_the_run(start):
    session = start("train", "my.toml", "--tui", "--run-dir", "d", mode="failed")
    session.wait_for(shows("FAILED"))
    session.wait_for(shows("start the task app"))
    session.send("q")
    assert session.wait() == 3
    assert "to do: start the task app" in printed(session)


def test_a_run_that_never_began_opens_no_interface(start):
    session = start("demo", "--run-dir", "d", mode="refuse")
    assert session.wait() == 2
    assert "the folder is in use" in printed(session) and b"\x1b[?1049h" not in session.raw
