from __future__ import annotations

import json
import os
import time
from pathlib import Path

import pytest

from trainer.rundir import ControlBox, RunPaths, answer, ask


@pytest.fixture
def box(root: Path) -> ControlBox:
    RunPaths(root).create()
    return ControlBox(root)


def test_life_of_a_request(root: Path, box: ControlBox) -> None:
    control_id = ask(root, "set", {"training.learning_rate": 1e-4}, client="test")
    (request,) = box.take()
    assert request.control_id == control_id and request.refusal is None
    assert request.action == "set" and request.args == {"training.learning_rate": 1e-4}
    assert request.by["pid"] == os.getpid() and request.by["client"] == "test"
    assert box.take() == []  # given once
    assert (root / "control" / f"{control_id}.json").exists()  # in its place until it is answered
    box.finish(request)
    assert [path.name for path in (root / "control").iterdir()] == ["done"]
    assert (root / "control" / "done" / f"{control_id}.json").is_file()
    box.finish(request)


def test_requests_come_in_the_order_of_asking(root: Path, box: ControlBox) -> None:
    for at, action in ((1_750_000_000_002, "resume"), (1_750_000_000_001, "pause")):
        document = {"control_id": f"{at}-00000000", "action": action, "created_at": "2999-01-01T00:00:00Z"}
        (root / "control" / f"{at}-00000000.json").write_text(json.dumps(document))
    assert [request.action for request in box.take()] == ["pause", "resume"]


def test_what_its_asker_did_not_want_any_more_is_expired(root: Path, box: ControlBox) -> None:
    ask(root, "pause", client="test", expires_in_s=-1)
    ask(root, "resume", client="test", expires_in_s=60)
    found = sorted(box.take(), key=lambda request: request.action)
    assert [(request.action, request.refusal) for request in found] == [("pause", "expired"), ("resume", None)]


@pytest.mark.parametrize("jump_s", [-3600, 0, 3600])
def test_a_request_is_of_the_attempt_that_it_came_to_whatever_the_clocks_say(root, monkeypatch, jump_s) -> None:
    RunPaths(root).create()
    ask(root, "stop", client="test")  # to the attempt before, which did not live to answer
    box, now = ControlBox(root, attempt=2), time.time()
    monkeypatch.setattr(time, "time", lambda: now + jump_s)
    ask(root, "pause", client="test")
    found = sorted(box.take(), key=lambda request: request.action)
    assert [(request.action, request.refusal) for request in found] == [("pause", None), ("stop", "expired")]


def test_what_came_while_a_first_attempt_started_is_its_own(root: Path) -> None:
    RunPaths(root).create()
    ask(root, "stop", client="test")
    assert [request.refusal for request in ControlBox(root, attempt=1).take()] == [None]


def test_what_is_no_request_is_refused_not_obeyed(root: Path, box: ControlBox, tmp_path: Path) -> None:
    control = root / "control"

    def put(name: str, text: str) -> None:
        (control / name).write_text(text)

    good = {"control_id": "", "action": "stop", "created_at": "2999-01-01T00:00:00Z"}
    put("1750000000000-00000000.json", "{")
    put("1750000000000-00000001.json", json.dumps(good | {"control_id": "another"}))
    put("1750000000000-00000002.json", "x" * 100_000)
    put("1750000000000-00000003.json", json.dumps(good | {"created_at": "yesterday"}))
    put("1750000000000-00000004.json", json.dumps(good | {"control_id": "1750000000000-00000004", "args": []}))
    put(".1750000000000-00000005.json.tmp-1", json.dumps(good))
    put("notes.txt", "hello")
    outside = tmp_path / "outside.json"
    outside.write_text(json.dumps(good | {"control_id": "1750000000000-00000006"}))
    (control / "1750000000000-00000006.json").symlink_to(outside)
    os.mkfifo(control / "1750000000000-00000007.json")
    late = good | {"control_id": "1750000000000-00000008", "action": "explode"}
    put("1750000000000-00000008.json", json.dumps(late))
    taken = box.take()
    assert [r.refusal for r in taken] == ["invalid"] * 7 + ["no_such_action"]
    for request in taken:
        box.finish(request)
    assert outside.exists()
    assert sorted(p.name for p in control.iterdir()) == [
        ".1750000000000-00000005.json.tmp-1",
        "done",
        "notes.txt",
    ]


def test_asking_checks_the_action_and_answers_come_from_events(root: Path, box: ControlBox) -> None:
    with pytest.raises(ValueError, match="no such action: explode"):
        ask(root, "explode", client="test")
    events = [
        {"type": "rl.control.accepted", "data": {"control_id": "a"}},
        {"type": "rl.control.refused", "data": {"control_id": "b", "reason": "not_live"}},
    ]
    assert answer(events, "a")[0] == "accepted" and answer(events, "c") == ("asked", {})
    assert answer(events, "b") == ("refused", {"control_id": "b", "reason": "not_live"})
