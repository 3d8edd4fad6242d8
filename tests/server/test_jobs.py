"""Jobs without HTTP: made once, started in turn, ended on record whatever their coordinator does."""

import json
import os
import stat
import threading

import pytest

import rltui.server.job
import rltui.server.overseer
from rltui.sdk.api.train.typed import JobStatus
from rltui.server.answers import Refused
from rltui.server.job import document
from rltui.server.reading import OpenRun
from rltui.server.table import QUEUED, STARTED
from tests.server.conftest import CONFIG, body
from tests.server.made_jobs import ended, make, types, words
from tests.waiting import until
from trainer.rundir import RunPaths, RunReader

# Making


def test_a_new_job_is_a_run_that_waits(make_jobs):
    jobs = make_jobs()
    row = make(jobs, key="s3cret", metadata={"client": "me"})
    folder = jobs.folder(row.job_id)
    assert folder.name == f"my-run-{row.job_id}"
    assert json.loads((folder / "config.json").read_text()) == CONFIG
    assert 'task_url = "builtin:facts"' in (folder / "config.toml").read_text()
    assert json.loads((folder / "resolved.json").read_text())["config_hash"] == row.config_hash
    (event,) = RunReader(folder).events()
    assert (event["seq"], event["type"]) == (1, "rl.job.created")
    found = document(row, folder)
    assert (found["status"], found["phase"], found["started_at"]) == ("queued", "queued", None)
    assert found["tags"] == {"source": "train-cli"}
    assert set(found) == set(JobStatus.__annotations__)
    assert (found["progress"]["total"], found["progress"]["total_updates"]) == (2, 2)
    assert found["metadata"] == {"client": "me"}
    for path in (folder, *folder.rglob("*"), *(jobs.house.runs_dir / ".server").iterdir()):
        assert stat.S_IMODE(path.lstat().st_mode) & 0o077 == 0, path
        assert not path.is_file() or b"s3cret" not in path.read_bytes()


def test_a_job_that_waits_tells_its_position_and_the_stream_its_organisation(make_jobs):
    jobs = make_jobs()
    first, second = make(jobs), make(jobs, metadata={"org_id": "lab", "user_id": "ann"})
    assert (jobs.place(first.job_id), jobs.place(second.job_id), jobs.place("rl_none")) == (1, 2, None)
    found = document(*jobs.row(second.job_id), jobs.place(second.job_id))
    assert (found["queue_position"], found["waiting"]["on"]) == (2, "its turn, 1 before it")
    run = OpenRun(second.job_id, jobs.folder(second.job_id), place=lambda: jobs.place(second.job_id))
    assert run.status(run.source)["waiting"]["for"] == "queue"
    assert [change["org_id"] for change in jobs.changes(0)] == [None, "lab"]
    jobs.cancel(first.job_id, "graceful", None)
    assert (jobs.place(first.job_id), jobs.place(second.job_id)) == (None, 1)
    assert document(*jobs.row(first.job_id))["queue_position"] is None


def test_the_same_idempotency_key_at_once_makes_one_job(make_jobs):
    jobs, made = make_jobs(), []
    barrier = threading.Barrier(4)

    def post():
        barrier.wait()
        made.append(jobs.create(body(), idempotency_key="k", key=None))

    threads = [threading.Thread(target=post) for _ in range(4)]
    [thread.start() for thread in threads]
    [thread.join() for thread in threads]
    assert len({row.job_id for row, _ in made}) == 1
    assert sorted(new for _, new in made) == [False, False, False, True]
    assert len(list(jobs.house.runs_dir.glob("my-run-*"))) == 1
    with pytest.raises(Refused, match=made[0][0].job_id) as refused:
        make(jobs, {"training": {"seed": 9}}, idempotency_key="k")
    assert (refused.value.status, refused.value.code) == (409, "idempotency_conflict")
    assert make(jobs).job_id != make(jobs).job_id


def test_an_earlier_config_is_taken_by_the_jobs_id_or_its_hash(make_jobs):
    jobs = make_jobs()
    first = make(jobs, {"training": {"seed": 77}})
    for name in (first.job_id, first.config_hash):
        row, _ = jobs.create({"job_config_id": name, "config": {}}, idempotency_key=None, key=None)
        assert row.config_hash == first.config_hash


def test_nothing_is_left_of_a_refused_job(make_jobs):
    jobs = make_jobs()
    for given in ({"training": {"group_size": 5}}, {"services": {"task_url": "x.py"}}):
        with pytest.raises(Refused):
            make(jobs, given)
    with pytest.raises(Refused) as refused:
        jobs.create({}, idempotency_key=None, key=None)
    assert "algorithm.type" in str(refused.value)
    assert jobs.newest() == []
    assert [path.name for path in jobs.house.runs_dir.iterdir()] == [".server"]


# Running, by a stand-in


def test_jobs_run_one_after_the_other_and_their_lives_are_told(make_jobs):
    jobs = make_jobs()
    jobs.open()
    first, second = make(jobs), make(jobs)
    assert ended(jobs, first, "succeeded")["progress"]["completed"] == 2
    ended(jobs, second, "succeeded")
    assert types(jobs, first)[:2] == ["rl.job.created", "rl.warning"]  # the stand-in goes on with seq 2
    told = {}
    for change in jobs.changes(0):
        told.setdefault(change["job_id"], []).append(change["type"])
    assert list(told.values()) == [["job.created", "job.started", "job.completed"]] * 2
    seqs = {(change["job_id"], change["type"]): change["seq"] for change in jobs.changes(0)}
    assert seqs[first.job_id, "job.completed"] < seqs[second.job_id, "job.started"]


@pytest.mark.parametrize(
    ("mode", "code", "message"),
    [
        ("crash", "process_lost", "ended without a word"),
        ("killed", "process_lost", "ended without a word"),
        ("refuse", "run_locked", "the folder is in use"),
    ],
)
def test_a_coordinator_that_ends_without_a_word_is_a_failed_job(make_jobs, mode, code, message):
    jobs = make_jobs(mode)
    jobs.open()
    row = make(jobs)
    found = ended(jobs, row, "failed")
    assert found["error"]["code"] == code
    assert message in found["error"]["message"]
    assert types(jobs, row)[-2:] == ["rl.train.failed", "rl.job.failed"]
    assert found["end_reason"] == "error"
    assert (found["results"]["status"], found["results"]["final_reward"], found["model_id"]) == ("failed", None, None)
    assert found["finished_at"] is not None


def test_a_job_that_waits_is_cancelled_at_once_and_stays_so(make_jobs):
    jobs = make_jobs()
    row = make(jobs)
    for mode in ("graceful", "now"):
        jobs.cancel(row.job_id, mode, {"client": "c"})
        found = document(*jobs.row(row.job_id))
        assert (found["status"], found["end_reason"], found["started_at"]) == ("cancelled", "stopped", None)
    assert types(jobs, row) == ["rl.job.created", "rl.job.cancelled"]
    jobs.open()
    until(lambda: not jobs.table.stages(QUEUED))
    assert words(jobs, row) == "cancelled"


def test_a_running_job_stops_when_it_is_asked_to(make_jobs):
    jobs = make_jobs()
    jobs.house.environ["FAKE_STEPS"] = "4000"
    jobs.open()
    row = make(jobs)
    until(lambda: row.stage == STARTED)
    asker = {"user": None, "host": "10.0.0.7", "pid": None, "client": "rltui (ann@laptop)"}
    jobs.cancel(row.job_id, "graceful", asker)
    assert ended(jobs, row, "cancelled")["end_reason"] == "stopped"
    (request,) = RunPaths(jobs.folder(row.job_id)).control_done.iterdir()
    assert json.loads(request.read_bytes())["by"] == asker
    assert len([kind for kind in types(jobs, row) if kind == "rl.control.done"]) == 1


def test_one_that_does_not_listen_is_killed(make_jobs):
    jobs = make_jobs("deaf")
    jobs.house.environ["FAKE_STEPS"] = "4000"
    jobs.open()
    row = make(jobs)
    until(lambda: row.stage == STARTED)
    pid = row.pid
    jobs.cancel(row.job_id, "now", {})
    found = ended(jobs, row, "cancelled")
    assert found["end_reason"] == "killed"
    assert types(jobs, row)[-1] == "rl.job.cancelled"
    with pytest.raises(ProcessLookupError):
        os.kill(pid, 0)


def test_one_that_does_not_stop_is_killed_once_it_is_silent(make_jobs, monkeypatch):
    monkeypatch.setattr(rltui.server.overseer, "SILENT_AFTER_S", 0.5)
    jobs = make_jobs("deaf")
    jobs.house.environ.update(FAKE_STEPS="4000", FAKE_PACE_S="1000")
    jobs.open()
    row = make(jobs)
    until(lambda: row.stage == STARTED)
    jobs.cancel(row.job_id, "graceful", {})
    assert ended(jobs, row, "cancelled")["end_reason"] == "killed"


def test_the_task_apps_key_reaches_the_coordinator_alone(make_jobs):
    jobs = make_jobs("deaf")
    jobs.house.environ.update(FAKE_STEPS="4000", ENVIRONMENT_API_KEY_ALIASES="other")
    jobs.open()
    row = make(jobs, key="s3cret")
    until(lambda: row.stage == STARTED)
    with open(f"/proc/{row.pid}/environ") as file:
        names = dict(item.partition("=")[::2] for item in file.read().split("\0"))
    assert names["ENVIRONMENT_API_KEY"] == "s3cret"
    assert "ENVIRONMENT_API_KEY_ALIASES" not in names
    assert names["RLTUI_ALLOW_CODE"] == "0"
    assert "s3cret" not in json.dumps(document(*jobs.row(row.job_id)))


def test_a_job_that_is_over_is_read_again_only_where_its_record_is_another(make_jobs, monkeypatch):
    jobs, made = make_jobs(), []
    jobs.open()
    row = make(jobs)
    ended(jobs, row, "succeeded")
    folder = jobs.folder(row.job_id)
    real = rltui.server.job.listed
    monkeypatch.setattr(rltui.server.job, "listed", lambda *given: made.append(given) or real(*given))
    assert jobs.listing.of(row, folder) == jobs.listing.of(row, folder) == real(row, folder)
    assert len(made) == 1
    status = folder / "status.json"
    status.write_text(json.dumps(json.loads(status.read_text()) | {"step": 1}))
    assert jobs.listing.of(row, folder)["progress"]["updates"] == 1 and len(made) == 2
    row.stage = "queued"  # it goes on
    jobs.listing.of(row, folder), jobs.listing.of(row, folder)
    assert len(made) == 4


def test_a_fault_of_ours_at_a_start_ends_that_job_with_its_cause_and_no_other(make_jobs, monkeypatch):
    jobs, real = make_jobs(), rltui.server.overseer.keys_for
    first, second = make(jobs), make(jobs)
    starts = []

    def keys(*given):
        starts.append(given)
        if len(starts) == 1:
            raise RuntimeError("planted")
        return real(*given)

    monkeypatch.setattr(rltui.server.overseer, "keys_for", keys)
    jobs.open()
    error = ended(jobs, first, "failed")["error"]
    assert error["code"] == "internal" and "RuntimeError" in error["message"] and "log" in error["hint"]
    ended(jobs, second, "succeeded")
    assert len(starts) == 2  # the first was not tried again and again
