from __future__ import annotations

import json
import os
from pathlib import Path

import pytest

from rltui.model.steering import Steering
from rltui.screens.steer import told as told_of
from rltui.sources.local import LocalRunSource
from trainer.rundir import ControlBox, RunWriter


class Narrow(LocalRunSource):
    verbs = frozenset({"stop", "kill"})


@pytest.fixture
def root(tmp_path: Path) -> Path:
    with RunWriter(tmp_path / "run", job_id="rl_0", label="x") as writer:
        writer.status(state="running")
        for _ in range(50):
            writer.event("rl.phase", "x", step=0)
    return tmp_path / "run"


def test_a_request_is_done_only_when_the_run_says_so(root: Path) -> None:
    steering = Steering(LocalRunSource(root), clock=lambda: 0.0)
    request = steering.ask("set", {"training.learning_rate": 1e-5})
    assert request.state == "asked" and steering.open and steering.poll() == []
    box = ControlBox(root)
    (taken,) = box.take()
    assert (taken.action, taken.args) == ("set", {"training.learning_rate": 1e-5})
    states = []
    with RunWriter(root, job_id="rl_0", label="x", attempt=2) as writer:
        for kind in ("accepted", "done"):
            writer.event(f"rl.control.{kind}", "x", step=0, control_id=taken.control_id)
            states += [changed.state for changed in steering.poll()]
    assert states == ["accepted", "done"] and not steering.open and steering.poll() == []
    command = steering.command(steering.requests[0])
    assert command.startswith('set {"training.learning_rate": 1e-05} → ') and taken.control_id in command


def test_a_refusal_gives_its_reason_and_harms_no_other(root: Path) -> None:
    steering = Steering(LocalRunSource(root), clock=lambda: 0.0)
    first, second = steering.ask("pause"), steering.ask("stop")
    with RunWriter(root, job_id="rl_0", label="x", attempt=2) as writer:
        told = "pause was refused: it is\x1b paused already"
        writer.event("rl.control.refused", told, step=0, control_id=first.control_id, reason="wrong_state")
    (changed,) = steering.poll()
    assert (changed.number, changed.state, changed.detail) == (first.number, "refused", "it is paused already")
    assert steering.answer(changed) == "pause: refused (it is paused already)"
    assert told_of(changed) == ("pause refused: it is paused already", "act")
    assert [request.state for request in steering.requests] == ["refused", "asked"] and second.number == 2


def test_no_answer_in_ten_seconds_of_the_readers_clock(root: Path) -> None:
    now = [0.0]
    steering = Steering(LocalRunSource(root), clock=lambda: now[0])
    request = steering.ask("stop")
    now[0] = 9.9
    assert steering.poll() == []
    now[0] = 10.0
    (late,) = steering.poll()
    assert late.state == "unanswered" and steering.answer(late) == "stop: no answer for 10 s" and steering.open
    with RunWriter(root, job_id="rl_0", label="x", attempt=2) as writer:
        writer.event("rl.control.accepted", "x", step=0, control_id=request.control_id)
    assert [changed.state for changed in steering.poll()] == ["accepted"]
    now[0] = 100.0
    assert steering.poll() == []  # it was accepted: that it takes long is no silence


def test_what_could_not_be_asked_says_why(root: Path) -> None:
    steering = Steering(Narrow(root), clock=lambda: 0.0)
    assert "it takes kill, stop" in steering.ask("evaluate").detail
    os.rename(root / "control", root / "aside")
    (root / "control").write_text("in the way")
    request = steering.ask("stop")
    assert request.state == "failed" and "could not be written" in request.detail and not steering.open
    assert not list((root / "aside").glob("*.json")) and request.control_id == ""


def test_answers_of_a_damaged_record_are_passed_over(root: Path) -> None:
    steering = Steering(LocalRunSource(root), clock=lambda: 0.0)
    request = steering.ask("stop")
    lines = [
        {"type": "rl.control.done", "data": [1]},
        {"type": ["rl.control.done"]},
        {"type": "rl.control.", "data": {}},
    ]
    lines.append({"type": "rl.control.surprise", "data": {"control_id": request.control_id}})
    with (root / "events.jsonl").open("ab") as file:
        file.writelines(json.dumps(line).encode() + b"\n" for line in lines)
    assert steering.poll() == [] and steering.requests[0].state == "asked"
