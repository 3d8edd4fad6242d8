"""Jobs without HTTP: found again by a server that starts anew, and runs that are not the server's own."""

import json
import os
import shutil
import signal
import time

import pytest

from rltui.launch.slurm_script import SCRIPT
from rltui.server import record
from rltui.server.answers import Refused
from rltui.server.job import document, present
from rltui.server.table import MAKING, OVER, STARTED, InUse
from tests.server.made_jobs import ended, make, types, words, write_status
from tests.waiting import until
from trainer.rundir import RunReader
from trainer.rundir.process import start_time_of
from trainer.rundir.synth import SynthConfig, write_run

# Restarts


def test_a_second_server_of_one_folder_is_refused(make_jobs):
    make_jobs()
    with pytest.raises(InUse):
        make_jobs()


def test_a_server_that_starts_anew_goes_on_with_all_jobs(make_jobs):
    jobs = make_jobs("deaf")
    jobs.house.environ["FAKE_STEPS"] = "4000"
    jobs.open()
    going, waiting = make(jobs, idempotency_key="a"), make(jobs, idempotency_key="b", key="s3cret")
    until(lambda: going.stage == STARTED)
    pid = present(*jobs.row(going.job_id))["pid"]
    jobs.close()

    again = make_jobs("ok")
    again.open()
    assert jobs is not again
    assert present(*again.row(going.job_id))["pid"] == pid
    assert words(again, waiting) == "queued"
    assert make(again, idempotency_key="a").job_id == going.job_id
    again.cancel(going.job_id, "now", {})
    until(lambda: again.table.rows[going.job_id].stage == OVER)
    found = ended(again, again.table.rows[waiting.job_id], "succeeded")  # its key is gone: its own app has another
    assert found["attempt"] == 1


def test_a_job_whose_key_went_with_the_server_is_never_given_another(make_jobs):
    app = {"services": {"task_url": "http://127.0.0.1:9"}}
    jobs = make_jobs()
    row = make(jobs, app, key="s3cret")
    jobs.close()
    again = make_jobs(trusted=["http://127.0.0.1:9"])
    again.house.environ["ENVIRONMENT_API_KEY"] = "the server's"
    again.open()
    error = ended(again, again.table.rows[row.job_id], "failed")["error"]
    assert error["code"] == "task_app_key"
    assert "another Idempotency-Key" in error["hint"]
    assert types(again, row) == ["rl.job.created", "rl.train.failed", "rl.job.failed"]


def test_a_coordinator_that_was_lost_while_no_server_ran_is_found_out(make_jobs):
    jobs = make_jobs("deaf")
    jobs.house.environ["FAKE_STEPS"] = "4000"
    jobs.open()
    row = make(jobs)
    until(lambda: row.stage == STARTED)
    jobs.close()
    os.kill(row.pid, signal.SIGKILL)
    os.waitpid(row.pid, 0)
    again = make_jobs()
    again.open()
    assert ended(again, again.table.rows[row.job_id], "failed")["error"]["code"] == "process_lost"


def test_a_start_of_which_only_the_intention_is_known(make_jobs):
    """The server ended between writing that it starts a run and knowing its pid: the run is there, or it is not."""
    jobs = make_jobs("deaf")
    jobs.house.environ["FAKE_STEPS"] = "4000"
    jobs.open()
    there, not_there = make(jobs), make(jobs)
    until(lambda: there.stage == STARTED)
    jobs.close()
    pid = there.pid

    again = make_jobs("ok")
    rows = again.table.rows
    for job_id in (there.job_id, not_there.job_id):
        rows[job_id].stage, rows[job_id].pid, rows[job_id].start_time = "starting", None, None
        again.table.save(rows[job_id])
    again.open()
    until(lambda: rows[there.job_id].stage == STARTED)
    assert present(*again.row(there.job_id))["pid"] == pid
    again.cancel(there.job_id, "now", {})
    ended(again, rows[not_there.job_id], "succeeded")
    assert len(list(again.house.runs_dir.glob("my-run-*"))) == 2


def test_a_job_that_was_half_made_is_finished_or_forgotten(make_jobs):
    jobs = make_jobs()
    whole, torn = make(jobs, idempotency_key="w"), make(jobs, idempotency_key="t")
    (jobs.folder(torn.job_id) / "status.json").unlink()
    for row in (whole, torn):
        row.stage = MAKING
        jobs.table.save(row)
    jobs.close()
    again = make_jobs()
    again.open()
    assert [row.job_id for row in again.newest()] == [whole.job_id]
    ended(again, again.table.rows[whole.job_id], "succeeded")
    assert make(again, idempotency_key="t").job_id != torn.job_id


# Runs that are not the server's own


def test_runs_of_others_become_jobs_too(make_jobs):
    jobs = make_jobs()
    runs = jobs.house.runs_dir
    done = write_run(runs / f"done-rl_{1:016x}", SynthConfig(episodes=16, kind="healthy", learner_blocks=False))
    status = json.loads((done / "status.json").read_text())
    write_status(done, **status | {"results": {"checkpoints": [{"step": 2, "path": "checkpoints/step_2"}]}})
    write_run(runs / f"lost-rl_{2:016x}", SynthConfig(episodes=16, kind="crashed", learner_blocks=False))
    (runs / "notes").mkdir()
    lost = runs / f"lost-rl_{2:016x}"
    status = json.loads((lost / "status.json").read_text())
    dead = {**status, "pid": 2**22 - 1, "start_time": 1, "job_id": f"rl_{2:016x}"}
    (lost / "status.json").write_text(json.dumps(dead))
    seqs = len(RunReader(lost).events())
    jobs.open()
    assert len(jobs.newest()) == 2
    row = next(row for row in jobs.newest() if row.folder == lost.name)
    assert ended(jobs, row, "failed")["error"]["code"] == "process_lost"
    assert [event["seq"] for event in RunReader(lost).events()] == list(range(1, seqs + 3))
    done = next(row for row in jobs.newest() if row.folder.startswith("done"))
    found = document(*jobs.row(done.job_id))
    assert (found["status"], found["model"] is not None) == ("succeeded", True)
    paths = [one["path"] for one in found["checkpoints"]]
    assert paths and all(path.startswith(f"{runs}/done-") for path in paths)
    assert found["results"]["checkpoints"] == found["checkpoints"]  # in one spelling
    jobs.close()
    again = make_jobs()
    again.open()
    assert {row.job_id for row in again.newest()} == {row.job_id, done.job_id}


def test_a_run_that_waits_in_a_batch_system_is_started_by_that_alone(make_jobs):
    jobs = make_jobs()
    row = make(jobs)
    folder = jobs.folder(row.job_id)
    jobs.close()
    (folder / SCRIPT).touch()
    for path in (jobs.house.runs_dir / ".server").iterdir():
        path.unlink()
    for _ in range(2):  # found, and known to a server that starts anew
        again = make_jobs()
        again.open()
        ended(again, make(again), "succeeded")
        assert words(again, row) == "queued" and types(again, row) == ["rl.job.created"]
        assert again.queue()["queued"] == 0
        again.close()
    last = make_jobs()
    last.open()
    me = {"pid": os.getpid(), "start_time": start_time_of(os.getpid())}
    write_status(folder, **{**json.loads((folder / "status.json").read_text()), **me, "state": "running"})
    until(lambda: last.table.rows[row.job_id].stage == STARTED)


def test_a_queued_run_survives_the_loss_of_the_table(make_jobs):
    jobs = make_jobs()
    row = make(jobs)
    jobs.close()
    for path in (jobs.house.runs_dir / ".server").iterdir():
        path.unlink()
    again = make_jobs()
    again.open()
    ended(again, again.table.rows[row.job_id], "succeeded")


def test_the_folder_of_a_job_that_was_deleted_is_no_job(make_jobs):
    jobs = make_jobs()
    row = make(jobs, idempotency_key="k")
    jobs.cancel(row.job_id, "now", {})
    folder = jobs.folder(row.job_id)
    folder.rename(folder.parent / ".away")
    assert jobs.folder(row.job_id) is None
    with pytest.raises(Refused, match="no job"):
        jobs.row(row.job_id)
    assert make(jobs, idempotency_key="k").job_id != row.job_id
    assert record.read_status(folder) is None
    assert time.time() > row.created_at


def test_a_job_that_came_with_a_key_goes_on_with_one_alone(make_jobs, tmp_path):
    """Any app may have been given with it, also one to which the server's own key goes."""
    url = "http://127.0.0.1:9"
    jobs = make_jobs(trusted=[url])
    row = make(jobs, {"services": {"task_url": url}}, key="s3cret")
    jobs.cancel(row.job_id, "now", {})
    synth = write_run(tmp_path / "other", SynthConfig(episodes=16, kind="healthy", learner_blocks=False))
    shutil.copytree(synth / "checkpoints", jobs.folder(row.job_id) / "checkpoints", dirs_exist_ok=True)
    with pytest.raises(Refused, match="send it again") as refused:
        jobs.resume(row.job_id, None, {}, None)
    assert (refused.value.status, refused.value.code) == (422, "task_app_key")
    assert (row.stage, row.attempt, len(types(jobs, row))) == (OVER, 1, 2)
    with pytest.raises(Refused, match=r"logging\.runs_dir may not differ") as refused:  # it is the server's
        jobs.resume(row.job_id, None, {"logging.runs_dir": "/etc"}, "s3cret")
    assert (refused.value.status, refused.value.code) == (422, "key_not_allowed")
    jobs.resume(row.job_id, None, {}, "s3cret")
    assert (words(jobs, row), row.attempt) == ("queued", 2)


def test_a_run_that_somebody_resumed_by_hand_is_followed_again(make_jobs):
    jobs = make_jobs("killed")
    jobs.open()
    row = make(jobs)
    folder = jobs.folder(row.job_id)
    ended(jobs, row, "failed")
    status = json.loads((folder / "status.json").read_text())
    me = {"pid": os.getpid(), "start_time": start_time_of(os.getpid())}
    write_status(folder, **{**status, **me, "state": "running", "attempt": 2, "error": None})
    until(lambda: row.stage == STARTED)
    assert words(jobs, row) == "running"
    assert row.attempt == 2
    write_status(folder, **{**status, "pid": 2**22 - 1, "state": "running", "attempt": 2})
    ended(jobs, row, "failed")
    kinds = [change["type"] for change in jobs.changes(0)]
    assert kinds == ["job.created", "job.started", "job.failed", "job.started", "job.failed"]


def test_a_deleted_run_of_somebody_else_holds_no_place(make_jobs):
    jobs = make_jobs()
    folder = jobs.house.runs_dir / f"theirs-rl_{3:016x}"
    write_run(folder, SynthConfig(episodes=16, kind="crashed", learner_blocks=False))  # by this very process
    jobs.open()
    until(lambda: jobs.queue()["running"] == 1)
    row = make(jobs)
    folder.rename(folder.parent / ".away")
    ended(jobs, row, "succeeded")
    assert jobs.queue()["running"] == 0
