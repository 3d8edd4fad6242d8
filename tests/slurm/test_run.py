"""How a run is seen whose coordinator is a batch job, by what Slurm says of the job."""

import pytest

from rltui.launch import slurm
from rltui.launch.slurm import SlurmRun, SlurmSource
from rltui.launch.slurm_states import JobState
from trainer.rundir import ProcessId, RunWriter

ELSEWHERE = ProcessId(pid=7, start_time=1, host="n1", boot_id="another")
RUNNING, PENDING = JobState("RUNNING", nodes="n1"), JobState("PENDING", "Resources")


class Seen:
    """A run, and the job as Slurm has it."""

    def __init__(self, folder, monkeypatch) -> None:
        self.job, self.now = RUNNING, 0.0
        monkeypatch.setattr(slurm, "job_state", lambda number: self.job)
        self.run = SlurmRun("17", folder, look_s=0.0)
        self.source = SlurmSource(folder, self.run, clock=lambda: self.now)
        self.writer = RunWriter(folder, job_id="rl_1", label="demo", identity=ELSEWHERE)

    def status(self) -> dict:
        return self.source.status() or {}


@pytest.fixture
def seen(tmp_path, monkeypatch):
    found = Seen(tmp_path / "run", monkeypatch)
    with found.writer:
        yield found


def test_a_preempted_run_waits_until_its_job_is_over(seen):
    seen.writer.status(state="cancelled", phase="done", end_reason="preempted")
    assert (seen.status()["state"], seen.status()["end_reason"]) == ("queued", None)
    seen.job = PENDING
    assert seen.status()["waiting"]["on"] == "Slurm job 17: it waits until enough nodes are free (Resources)"
    seen.job = JobState("CANCELLED")
    assert (seen.status()["state"], seen.status()["end_reason"]) == ("cancelled", "preempted")


def test_a_run_that_somebody_stopped_is_over_whatever_its_job_does(seen):
    seen.writer.status(state="cancelled", phase="done", end_reason="stopped")
    assert seen.status()["state"] == "cancelled"


def test_a_silent_run_is_lost_once_its_job_is_over(seen):
    seen.writer.status(state="running")
    assert seen.status()["state"] == "running"
    seen.now = 61.0
    assert (seen.status()["state"], seen.status()["silent"]) == ("running", True)
    seen.job = JobState("NODE_FAIL", nodes="n1")
    found = seen.status()
    assert (found["state"], found["error"]["code"]) == ("failed", "process_lost")
    assert found["error"]["message"] == "Slurm job 17 lost its node n1"


@pytest.mark.parametrize(
    ("job", "state", "reason"),
    [(JobState("CANCELLED"), "cancelled", "stopped"), (JobState("FAILED", "JobLaunchFailure"), "failed", "error")],
)
def test_the_end_of_a_job_that_never_began_is_written_down(tmp_path, monkeypatch, job, state, reason):
    seen = Seen(tmp_path / "run", monkeypatch)
    with seen.writer as writer:
        writer.status(state="queued", phase="queued")
    seen.job = job
    assert (seen.status()["state"], seen.status()["end_reason"]) == (state, reason)


@pytest.mark.parametrize(
    ("job", "code"),
    [
        (RUNNING, None),
        (JobState("COMPLETED", exit_code=0), 0),
        (JobState("FAILED", exit_code=2), 2),
        (JobState("CANCELLED", exit_code=-15), 143),
        (JobState("TIMEOUT", exit_code=0), 3),
        (slurm.FORGOTTEN, 3),
    ],
)
def test_the_exit_code_of_a_job(seen, job, code):
    seen.job = job
    assert seen.run.exit_code() == code
