"""Jobs without HTTP: made once, started in turn, ended on record whatever their coordinator does, found again."""

import json
import os
import signal
import stat
import threading
import time

import pytest

import rltui.server.job
import rltui.server.overseer
from rltui.server import record
from rltui.server.answers import Refused
from rltui.server.job import document, present
from rltui.server.reading import OpenRun
from rltui.server.table import MAKING, OVER, QUEUED, STARTED, InUse
from tests.server.conftest import CONFIG, body
from tests.waiting import until
from trainer.rundir import RunReader
from trainer.rundir.process import start_time_of
from trainer.rundir.synth import SynthConfig, write_run


def make(jobs, config=None, *, idempotency_key=None, key=None, **more):
    return jobs.create(body(config, **more), idempotency_key=idempotency_key, key=key)[0]


def words(jobs, row):
    return document(*jobs.row(row.job_id))["status"]


def ended(jobs, row, *expected):
    until(lambda: row.stage == OVER)
    found = document(*jobs.row(row.job_id))
    assert found["status"] in expected, found["error"]
    return found


def types(jobs, row):
    return [event["type"] for event in RunReader(jobs.folder(row.job_id)).events()]


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
    jobs.cancel(row.job_id, "graceful", {})
    assert ended(jobs, row, "cancelled")["end_reason"] == "stopped"
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
    write_run(runs / f"done-rl_{1:016x}", SynthConfig(episodes=16, kind="healthy", learner_blocks=False))
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
    jobs.close()
    again = make_jobs()
    again.open()
    assert {row.job_id for row in again.newest()} == {row.job_id, done.job_id}


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


def test_a_run_that_somebody_resumed_by_hand_is_followed_again(make_jobs):
    jobs = make_jobs("killed")
    jobs.open()
    row = make(jobs)
    folder = jobs.folder(row.job_id)
    ended(jobs, row, "failed")
    status = json.loads((folder / "status.json").read_text())
    me = {"pid": os.getpid(), "start_time": start_time_of(os.getpid())}
    (folder / "status.json").write_text(json.dumps({**status, **me, "state": "running", "attempt": 2, "error": None}))
    until(lambda: row.stage == STARTED)
    assert words(jobs, row) == "running"
    assert row.attempt == 2
    (folder / "status.json").write_text(json.dumps({**status, "pid": 2**22 - 1, "state": "running", "attempt": 2}))
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
