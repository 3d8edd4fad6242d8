"""Faults at random points of a real run, and the checker of what it leaves behind, which must find what is planted."""

import json
import os
import re
import shutil
import subprocess
import sys
from collections import Counter
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from tests.faults.ending import words_for_a_user, wrong_end
from tests.faults.machine import marked
from tests.faults.plan import DELAYS, MOUNTED, Injection, Plan, draw
from tests.faults.record import Record
from tests.faults.scene import ROOT
from tests.faults.short import SHORT
from tests.faults.story import E

PLAYED_S = 300.0  # on a busy machine; it takes some 40 s


@pytest.fixture(scope="module")
def told(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Any]:
    """What the short set says of its run, which is left in `folder`."""
    folder = tmp_path_factory.mktemp("story")
    done = subprocess.run(
        [sys.executable, "-m", "tests.faults.short", "--seed", "7", str(folder)],
        capture_output=True, text=True, env={**os.environ, "PYTHONPATH": str(ROOT)}, cwd=ROOT, timeout=PLAYED_S,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    return json.loads(done.stdout.splitlines()[-1])


def check(told: dict[str, Any], run: Path) -> list[str]:
    damaged = {(name, at) for name, at in told["damaged"]}
    return Record(run, damaged).check(episodes=E, **told["ran"])


def test_a_run_loses_nothing_by_a_few_faults(told: dict[str, Any]) -> None:
    outcome = told["outcome"]
    assert (outcome["losses"], outcome["hangs"], outcome["orphans"]) == ([], [], [])
    wanted = [kind for kind in SHORT if told["mounts"] or kind not in MOUNTED]
    assert outcome["injections"] == wanted and outcome["attempts"] == 3


def test_a_full_disk_is_among_them(told: dict[str, Any]) -> None:
    if not told["mounts"]:
        pytest.skip("no small disk can be mounted here")
    assert "disk_full" in told["outcome"]["injections"]


def change(name: str, edit: Callable[[list[bytes]], list[bytes]]) -> Callable[[Path], None]:
    """Edits the lines of a file."""

    def apply(run: Path) -> None:
        lines = (run / name).read_bytes().splitlines(keepends=True)
        (run / name).write_bytes(b"".join(edit(lines)))

    return apply


def flip(pattern: str) -> Callable[[Path], None]:
    """Another bit in the middle of the newest file of that pattern."""

    def apply(run: Path) -> None:
        path = max(run.glob(pattern), key=lambda path: path.stat().st_mtime)
        data = bytearray(path.read_bytes())
        data[len(data) // 2] ^= 1
        path.write_bytes(data)

    return apply


def with_wall(row: bytes, seconds: float) -> bytes:
    """Of the same length."""
    return json.dumps({**json.loads(row), "wall": seconds}, separators=(",", ":")).encode().ljust(len(row) - 1) + b"\n"


def last_of_a_kind(lines: list[bytes], word: bytes) -> int:
    return max(at for at, line in enumerate(lines) if word in line)


PLANTED = {
    "an event is gone": (change("events.jsonl", lambda lines: lines[:4] + lines[5:]), "events: seq"),
    "an event is doubled": (change("events.jsonl", lambda lines: [*lines, lines[-1]]), "events: seq"),
    "a line is torn": (change("metrics.jsonl", lambda lines: [*lines, lines[-1][:9]]), "ends in the middle"),
    "a line is no JSON": (change("judge.jsonl", lambda lines: [*lines, b"{\n"]), "cannot be read"),
    "a step is gone": (
        change("metrics.jsonl", lambda lines: [line for line in lines if b'"time/step"' not in line]),
        "metrics: lines by step",
    ),
    "a sequence is used twice": (
        change("rollouts/updates.jsonl", lambda lines: [*lines, lines[last_of_a_kind(lines, b'"use"')]]),
        "trained on twice",
    ),
    "a group is gone": (change("rollouts/groups.jsonl", lambda lines: lines[:-1]), "episodes by iteration"),
    "a group is doubled": (change("rollouts/groups.jsonl", lambda lines: [*lines, lines[-1]]), "in two groups"),
    "a row is gone": (change("rollouts/index.jsonl", lambda lines: lines[1:]), "not the number of the row"),
    "tokens are damaged": (flip("rollouts/tokens-*.bin"), "is damaged"),
    "weights are damaged": (flip("checkpoints/step_*/*.safetensors"), "has another sum"),
    "an optimizer state is damaged": (flip("checkpoints/step_*/optimizer/*.safetensors"), "has another sum"),
    "a duration is of another clock": (
        change("rollouts/index.jsonl", lambda lines: [with_wall(lines[0], -3594.0), *lines[1:]]),
        "took no such time",
    ),
    "a run took a day": (
        change("status.json", lambda lines: [re.sub(rb'"elapsed_s":[^,]*', b'"elapsed_s":86400.0', *lines)]),
        "of a run that lived for",
    ),
    "the lock is left": (lambda run: (run / "lock").touch(), "left over: lock"),
    "a half-written file is left": (lambda run: (run / ".status.json.tmp-1").touch(), "left over: .status"),
}


@pytest.mark.parametrize("planted", PLANTED)
def test_the_checker_finds(told: dict[str, Any], planted: str, tmp_path: Path) -> None:
    run = shutil.copytree(told["run"], tmp_path / "run")
    harm, says = PLANTED[planted]
    harm(run)
    found = check(told, run)
    assert any(says in problem for problem in found), found


@pytest.mark.parametrize(
    ("met", "code", "message", "true"),
    [
        (["kill:learner"], "learner_down", "the learner process ended (killed by signal 9)", True),
        (["kill:learner"], "learner_down", "the learner process ended (exit 1)", False),
        (["app:401", "kill:learner"], "task_app_rejected", "the app rejected ENVIRONMENT_API_KEY", False),
        (["judge:404", "clock:3600"], "judge_route", "the judge answered 404", True),
        (["stop:learner"], "task_app_down", "it did not come back", False),
        (["app:large"], "too_many_excluded", "7 of 8: the answer is too large: over 64 MiB", True),
        (["app:large"], "too_many_excluded", "7 of 8: no answer within 6 s", False),
    ],
)
def test_a_cause_is_true_if_the_fault_that_was_met_last_says_it(
    met: list[str], code: str, message: str, true: bool
) -> None:
    error = {"code": code, "message": message, "hint": "go on with rltui train --resume"}
    status = {"state": "failed", "error": error, "end_reason": "error", "last_checkpoint": {}}
    assert (list(wrong_end(met, 3, status, "")) == []) is true


def test_the_end_of_a_childs_log_is_not_told_to_a_user() -> None:
    line = {"type": "error", "message": "the task app is gone", "evidence": "Traceback (most recent call last)"}
    assert "Traceback" not in words_for_a_user(json.dumps(line))
    assert "Traceback" in words_for_a_user("Traceback (most recent call last)")


def test_two_hundred_of_them_meet_every_process_and_every_moment() -> None:
    plans: list[Plan] = []
    while (room := 200 - sum(map(len, all_of(plans)))) > 0:
        plans.append(draw(len(plans), room=room, mounts=True, vllm=True))
    met = [injection for some in all_of(plans) for injection in some]
    kinds = Counter(injection.kind for injection in met)
    children = ("coordinator", "learner", "inference", "taskapp", "reference")
    assert min(kinds[f"kill:{role}"] for role in children) >= 3, kinds
    assert kinds["kill:viewer"] and kinds["kill:core"] and kinds["hangup"] and kinds["app:gone"], kinds
    assert {injection.moment for injection in met} == set(DELAYS)
    stops = [injection.hold_s >= 30 for injection in met if injection.kind.startswith("stop:")]
    assert len(stops) >= 12 and sum(stops) >= len(stops) / 3


def test_before_a_run_has_a_process_none_is_taken_for_its_own() -> None:
    assert marked("of-no-run", session=0) == {}


def all_of(plans: list[Plan]) -> list[list[Injection]]:
    return [some for plan in plans for some in (*plan.attempts, *plan.rest)]


@pytest.mark.slow
def test_many_faults_of_every_kind(tmp_path: Path) -> None:
    command = [sys.executable, "-m", "tests.faults", "--json", "--seed", "1000", "--count", "40"]
    done = subprocess.run(
        [*command, "--out", str(tmp_path / "out.json")],
        capture_output=True, text=True, env={**os.environ, "PYTHONPATH": str(ROOT)}, cwd=tmp_path,
    )  # fmt: skip
    told = json.loads(done.stdout.splitlines()[-1])
    assert told["injections"] >= 40
    assert (told["losses"], told["hangs"], told["orphans"]) == (0, 0, 0), done.stderr
