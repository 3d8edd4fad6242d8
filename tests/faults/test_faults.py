"""Faults at random points of a real run, and the checker of what it leaves behind, which must find what is planted."""

import json
import os
import random
import shutil
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

from tests.faults.plan import Injection, Plan
from tests.faults.record import Record
from tests.faults.story import ROOT, E, Story

KINDS = ["app:bad_json", "app:503", "kill:learner"]  # the last one ends the attempt
REST = ["torn:events", "torn:rollouts/groups", "garbage:metrics", "corrupt:weights"]


def short_plan(seed: int) -> Plan:
    """A few faults of the main kinds, at points drawn from the seed; the second attempt brings the run to its end."""
    rng = random.Random(seed)
    first = [Injection(kind, "training", rng.uniform(0.0, 0.3), draw=rng.random()) for kind in KINDS]
    rest = [Injection(kind, draw=rng.random()) for kind in REST]
    sets = ("training.max_lag=2", "training.batch_size=8", "checkpoint.every_n_iters=1")
    return Plan(seed, sets, judged=False, updates=1, more=2, attempts=[first, []], rest=[rest])


@pytest.fixture(scope="module")
def story(tmp_path_factory: pytest.TempPathFactory) -> Story:
    story = Story(short_plan(seed=7), tmp_path_factory.mktemp("story"))
    story.play()
    return story


def test_a_run_loses_nothing_by_a_few_faults(story: Story) -> None:
    outcome = story.outcome
    assert (outcome.losses, outcome.hangs, outcome.orphans) == ([], [], [])
    assert outcome.injections == [*KINDS, *REST] and outcome.attempts == 2


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
    "the lock is left": (lambda run: (run / "lock").touch(), "left over: lock"),
    "a half-written file is left": (lambda run: (run / ".status.json.tmp-1").touch(), "left over: .status"),
}


@pytest.mark.parametrize("planted", PLANTED)
def test_the_checker_finds(story: Story, planted: str, tmp_path: Path) -> None:
    run = shutil.copytree(story.run_dir, tmp_path / "run")
    harm, says = PLANTED[planted]
    harm(run)
    found = Record(run, story.damaged).check(iterations=story.iterations, episodes=E, updates=story.plan.updates)
    assert any(says in problem for problem in found), found


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
