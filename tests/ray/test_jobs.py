"""A run that is a job of a real Ray cluster: the folder is looked for, the run followed by its record, and stopped."""

from __future__ import annotations

import time

import pytest

from rltui.launch.base import Job
from rltui.launch.ray import RayLauncher

pytestmark = pytest.mark.slow
PATIENCE_S = 600


def until(told, run, what: str):
    deadline = time.monotonic() + PATIENCE_S
    while not (found := told()):
        assert time.monotonic() < deadline, f"{what}: {run.state()}, {run.source.status()}, {run.last_words()}"
        time.sleep(0.5)
    return found


def test_a_job_is_submitted_followed_and_stopped(head, trainer):
    launcher = RayLauncher(f"ray:{head.dashboard}")
    sets = ("compute.topology.type=cpu", "inference.engine=local", "training.iterations_per_epoch=500", *launcher.sets)
    job = Job(trainer.config, trainer.folder / "run-1", "rl_0123456789abcdef", sets=sets, key="once", environ={})
    facts = {fact.name: fact for fact in launcher.facts(job)}
    assert facts["reachable"].ok and facts["shared folder"].ok is not False, facts
    run = launcher.start(job)
    assert launcher.start(job).submission_id == run.submission_id

    def step() -> int:
        assert run.exit_code() is None, run.last_words()
        return (run.source.status() or {}).get("step") or 0

    until(step, run, "the first step")
    status = run.source.status()
    assert {c["role"] for c in status["children"] if c.get("host")} == {"learner", "inference"}
    assert run.state().status == "RUNNING" and not run.waiting()
    run.source.request("stop")
    assert until(lambda: run.exit_code() is not None, run, "the end") and run.exit_code() == 130
    status = run.source.status()
    assert (status["state"], status["end_reason"]) == ("cancelled", "stopped")
    assert run.state().status == "FAILED"  # to Ray, what does not end with 0 has failed


def test_a_job_that_cannot_begin_says_why(head, trainer):
    trainer.config.write_text("no config")
    launcher = RayLauncher(f"ray:{head.dashboard}")
    run = launcher.start(Job(trainer.config, trainer.folder / "run-2", "rl_1123456789abcdef", environ={}))
    until(lambda: run.exit_code() is not None, run, "the end")
    assert run.exit_code() == 2 and "run.toml" in run.last_words()[0]
