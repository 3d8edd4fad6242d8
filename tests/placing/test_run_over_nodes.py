"""Whole runs over two nodes that real agents make of this machine; tests/ray has them on a cluster."""

from __future__ import annotations

import json
import os
import signal
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path

import psutil
import pytest

from tests.placing.nodes import LAUNCHER, home

# The coordinator gets its nodes from our launcher in the place of Ray's program.
NODES = f"""
import sys
from trainer.placing import ray
ray.RayPlacing.command = lambda self, port: [sys.executable, "-c", {LAUNCHER!r}, str(port), str(self._count)]
"""
TWO = ["compute.launcher=ray", "compute.nodes=2", "compute.topology.type=cpu", "inference.engine=local"]


@pytest.fixture(autouse=True)
def path(monkeypatch):
    monkeypatch.setenv("PYTHONPATH", home())


def agent_of(process, node: int) -> psutil.Process:
    below = psutil.Process(process.pid).children(recursive=True)
    return next(p for p in below if _ends(p, ["--node", str(node)]))


def _ends(process: psutil.Process, words: list[str]) -> bool:
    with suppress(psutil.Error):
        return process.cmdline()[-2:] == words
    return False


def wait_for(process, run_dir: Path, holds: Callable[[dict], bool]) -> None:
    """Until that holds of the run's record; the coordinator's own end fails the test."""
    while True:
        assert process.poll() is None, process.stderr.read()
        with suppress(FileNotFoundError, KeyError, ValueError):
            if holds(json.loads((run_dir / "status.json").read_text())):
                return
        with suppress(Exception):
            process.wait(0.2)


def wait_for_step(process, run_dir: Path, step: int = 1) -> None:
    wait_for(process, run_dir, lambda status: status["step"] >= step)


def placed(status: dict) -> set[tuple[str, int, str]]:
    return {(child["role"], child["rank"], child["log"]) for child in status["children"] if "host" in child}


@pytest.mark.slow
def test_two_ranks_and_two_engines_train_as_one(trainer):
    a_while = ["training.iterations_per_epoch=500", "training.max_minutes=0.4"]  # some beats with all of them
    process, run_dir = trainer.start(*TWO, *a_while, first=NODES)
    expected = {(role, rank, f"logs/{role}-{rank}.log") for role in ("learner", "inference") for rank in (0, 1)}
    wait_for(process, run_dir, lambda status: placed(status) == expected)
    done = trainer.finish(process, run_dir)
    assert done.code == 0 and done.status["state"] == "succeeded", done.stderr
    assert "rank 1" in (run_dir / "logs" / "learner-1.log").read_text()
    assert [e["state"] for e in done.status["engines"]] == ["gone"] * 2 and done.status["weight_version"] >= 1
    assert not list(run_dir.rglob(".mark-*"))


@pytest.mark.slow
def test_a_lost_node_fails_the_run_with_that_cause_and_it_goes_on_elsewhere(trainer):
    sets = ["checkpoint.every_n_iters=1", "training.iterations_per_epoch=200"]
    process, run_dir = trainer.start(*TWO, *sets, first=NODES)
    wait_for_step(process, run_dir, 2)
    os.kill(agent_of(process, 1).pid, signal.SIGKILL)
    done = trainer.finish(process, run_dir)
    error = done.status["error"]
    assert done.code == 3 and done.status["state"] == "failed" and error["code"] in ("learner_down", "learner_failed")
    assert "was lost: its connection ended" in error["message"], error
    step = done.status["step"]
    one = ["compute.launcher=local", "compute.nodes=1", f"training.iterations_per_epoch={step + 1}"]
    again = trainer.finish(*trainer.resume(run_dir, *one))
    assert again.code == 0 and again.status["state"] == "succeeded", again.stderr


def test_nodes_that_cannot_be_had_are_an_error_that_says_so(trainer):
    none = "from trainer.placing import ray\n"
    none += "ray.RayPlacing.command = lambda self, port: ['sh', '-c', 'echo the queue is closed >&2; exit 1']"
    done = trainer.finish(*trainer.start(*TWO, first=none))
    assert done.code == 2 and done.status["error"]["code"] == "no_nodes"
    assert "could not be had: the queue is closed" in done.status["error"]["message"]
    assert "the queue is closed" in (done.run_dir / "logs" / "launcher.log").read_text()
