"""Runs as batch jobs of a real Slurm: submitted, followed, preempted in every way, stopped and killed."""

import pytest

from rltui.launch.base import LaunchError
from rltui.launch.slurm import adopted
from trainer.rundir import RunReader

pytestmark = pytest.mark.slow

EVERY = "checkpoint.every_n_iters=1"
LONG = "training.iterations_per_epoch=400"


def test_a_run_is_submitted_and_followed_to_its_end(jobs):
    run = jobs.submit("training.iterations_per_epoch=2", cpus_per_task=2)
    status = run.end()
    assert (status["state"], status["end_reason"], run.job.exit_code()) == ("succeeded", "completed", 0), run.told()
    assert [event["type"] for event in run.events("rl.job")] == ["rl.job.created", "rl.job.started", "rl.job.completed"]
    logs = [path for path in run.folder.rglob("*") if path.is_file()]
    assert not [path for path in logs if path.stat().st_mode & 0o077]
    assert adopted(run.folder).number == run.number


def test_a_run_goes_on_after_every_kind_of_notice(jobs):
    """Slurm tells the script alone (time limit), the steps alone (preemption with grace) or all (requeue)."""
    run = jobs.submit(LONG, EVERY)
    notices = [
        ("scancel", "--batch", "--signal=TERM", run.number),
        ("scancel", "--signal=TERM", run.number),
        ("scontrol", "requeue", run.number),
    ]
    ends = []
    for attempt, notice in enumerate(notices, 1):
        run.step(attempt, attempt)
        jobs.slurm.ask(*notice)
        run.follow(lambda now: now["state"] == "queued")
        ends.append((run.status["attempt"], run.status["end_reason"], run.status["step"]))
        run.follow(lambda now, attempt=attempt: now["attempt"] > attempt)
    run.step(ends[-1][2] + 1, 4)
    run.job.source.request("stop")
    assert run.end()["end_reason"] == "stopped", run.told()
    assert [end[:2] for end in ends] == [(1, "preempted"), (2, "preempted"), (3, "preempted")]
    went_on = [event["data"]["from_step"] for event in run.events("rl.resumed")]
    assert went_on == [end[2] for end in ends]  # nothing that was done is done again
    assert "failed" not in run.shown
    assert "cancelled" not in run.shown  # while Slurm was to start it again
    reader = RunReader(run.folder)
    assert sorted({row["step"] for row in reader.metrics() if "reward/mean" in row}) == list(
        range(1, run.status["step"] + 1)
    )


def test_a_job_of_a_higher_partition_takes_the_place_and_gives_it_back(jobs):
    run = jobs.submit(LONG, EVERY, partition="main")
    run.step(1)
    urgent = ["--partition=urgent", "--exclusive", "--nodes=2", "--output=/dev/null", "--wrap=sleep 2"]
    jobs.slurm.ask("sbatch", *urgent)
    run.follow(lambda now: now["state"] == "queued")
    assert run.status["end_reason"] == "preempted", run.told()
    step = run.status["step"]
    run.step(step + 1, 2)
    assert [event["data"]["from_step"] for event in run.events("rl.resumed")] == [step]


def test_a_run_that_had_no_checkpoint_begins_anew(jobs):
    run = jobs.submit("training.iterations_per_epoch=2")
    run.follow(lambda now: now["state"] == "starting")
    jobs.slurm.ask("scancel", "--batch", "--signal=TERM", run.number)
    run.follow(lambda now: now["attempt"] == 2)
    status = run.end()
    assert (status["state"], status["attempt"], status["step"]) == ("succeeded", 2, 2), run.told()
    assert [event["data"]["from_step"] for event in run.events("rl.resumed")] == [0]


def test_a_job_that_waits_says_why_and_can_be_cancelled(jobs):
    run = jobs.submit(LONG, partition="closed")
    status = run.follow(lambda now: "PartitionDown" in run.job.waiting())
    assert status["state"] == "queued"
    assert status["waiting"]["on"] == f"Slurm job {run.number}: it waits because its partition is down (PartitionDown)"
    run.job.source.request("stop")
    status = run.end()
    assert (status["state"], status["end_reason"]) == ("cancelled", "stopped")
    assert jobs.slurm.state(run.number) == "CANCELLED"


def test_a_request_that_slurm_refuses_makes_no_run(jobs):
    job = jobs.job(partition="nowhere")
    with pytest.raises(LaunchError, match="does not take the job: invalid partition specified: nowhere"):
        jobs.launcher.start(job)
    assert not job.folder.exists()
    reachable, shared, queue = jobs.launcher.facts(job)
    assert (reachable.ok, shared.ok, queue.ok) == (True, None, False)
    assert jobs.launcher.facts(jobs.job())[-1].ok


def test_a_killed_run_says_so_and_stays_out_of_the_queue(jobs):
    run = jobs.submit(LONG)
    run.step(1)
    run.job.kill()
    status = run.end()
    assert (status["state"], status["end_reason"]) == ("cancelled", "killed"), run.told()
    assert jobs.slurm.state(run.number) == "CANCELLED"


def test_a_run_that_is_too_young_for_requests_is_stopped_by_an_interrupt(jobs):
    run = jobs.submit(LONG)
    run.follow(lambda now: now["state"] == "starting")
    run.job.stop()
    status = run.end()
    assert (status["state"], status["end_reason"], status["attempt"]) == ("cancelled", "stopped", 1), run.told()


def test_a_job_that_is_cancelled_from_outside_is_not_put_back(jobs):
    run = jobs.submit(LONG, EVERY)
    run.step(1)
    jobs.slurm.ask("scancel", run.number)
    status = run.end()
    assert (status["state"], status["end_reason"]) == ("cancelled", "preempted"), run.told()
    assert jobs.slurm.state(run.number) == "CANCELLED"


def test_a_node_that_does_not_see_the_folder_ends_the_run_with_a_sentence(jobs):
    run = jobs.submit(LONG, hold=True)
    (run.folder / "slurm.sbatch").unlink()
    jobs.slurm.ask("scontrol", "release", run.number)
    status = run.end()
    assert status["state"] == "failed"
    assert status["error"]["message"] == f"the node n1 does not see {run.folder}"
    assert "shar" in status["error"]["hint"]
