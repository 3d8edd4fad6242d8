"""Runs whose record is damaged: each is told of as itself, and all others are served as ever."""

import json
import os

import pytest

from rltui.server.app import job_server
from rltui.server.auth import Access
from rltui.server.jobs import Jobs
from rltui.server.slots import Places
from rltui.server.submit import House
from tests.server_reads.serving import Server
from tests.waiting import until
from trainer.rundir.synth import SynthConfig, write_run


def linked(folder, name):
    (folder / name).rename(folder.parent / f"{folder.name}.{name}")
    (folder / name).symlink_to(folder.parent / f"{folder.name}.{name}")


def changed(folder, **fields):
    status = json.loads((folder / "status.json").read_bytes())
    (folder / "status.json").write_text(json.dumps({**status, **fields}))


def garbled(folder):
    (folder / "status.json").write_bytes(b"\xff{")


def no_file(folder):
    (folder / "events.jsonl").unlink()
    (folder / "events.jsonl").mkdir()


UNREADABLE = {
    "events": lambda folder: linked(folder, "events.jsonl"),
    "status": lambda folder: linked(folder, "status.json"),
    "garbled": garbled,
    "state": lambda folder: changed(folder, state=["x"]),
    "folder": no_file,
}
ODD = {  # a field of another kind is as one that is not there, as for every viewer
    "attempt": lambda folder: changed(folder, attempt="9"),
    "iteration": lambda folder: changed(folder, iteration="x", totals=7, latest=[], best="y"),
    "huge": lambda folder: changed(folder, step=10**30, latest={"reward/mean": 10**30}),
}


@pytest.fixture(scope="module")
def server(tmp_path_factory):
    """Its runs, by what is wrong with them."""
    runs = tmp_path_factory.mktemp("odd") / "runs"
    names = ["well", *UNREADABLE, *ODD]
    folders = {name: runs / f"{name}-rl_{i:016x}" for i, name in enumerate(names, 1)}
    for i, name in enumerate(names, 1):
        write_run(folders[name], SynthConfig(episodes=16, seed=i, learner_blocks=False))
    jobs = Jobs(House(runs, False, dict(os.environ)), Places((), 1))
    found = Server(app=job_server(jobs, Access()))
    until(lambda: len(jobs.table.rows) == len(names))  # damaged once they were known
    for name, damage in {**UNREADABLE, **ODD}.items():
        damage(folders[name])
    found.ids = {name: f"rl_{i:016x}" for i, name in enumerate(names, 1)}
    yield found
    found.close()


@pytest.mark.parametrize("query", ["", "?status=succeeded"])
def test_one_odd_run_takes_no_list_away(server, query):
    answer = server.http.get(f"{server.url}/rl/jobs{query}")
    assert answer.status_code == 200
    jobs = {job["job_id"]: job for job in answer.json()["jobs"]}
    assert jobs.keys() == set(server.ids.values())
    for name, job_id in server.ids.items():
        error = jobs[job_id]["error"]
        assert jobs[job_id]["status"] == "succeeded", name
        assert (error and error["code"]) == ("unreadable" if name in UNREADABLE else None), name
    for name in ("models", "artifacts", "system"):
        assert server.http.get(f"{server.url}/{name}").status_code == 200


@pytest.mark.parametrize("name", [*UNREADABLE, *ODD])
def test_its_own_routes_say_what_is_wrong_and_none_is_a_fault_of_ours(server, name):
    url = f"{server.url}/rl/jobs/{server.ids[name]}"
    assert server.http.get(url).json()["status"] == "succeeded"
    for path in (
        *("status", "runs", "timeline", "artifacts", "artifacts/checkpoints/step_1/manifest.json", "checkpoints"),
        *("events", "metrics", "rollouts", "rollouts/1", "judge", "logs", "config", "config?view=resolved"),
    ):
        answer = server.http.get(f"{url}/{path}")
        assert answer.status_code in (200, 404, 409), (path, answer.text)
        if answer.status_code == 409:
            error = answer.json()["error"]
            assert error["code"] == "unreadable" and str(server.ids[name]) not in error["message"], path
    answers = {path: server.http.get(f"{url}/{path}").status_code for path in ("status", "timeline", "artifacts")}
    if name in ("events", "folder"):
        assert answers == {"status": 200, "timeline": 409, "artifacts": 409}
    elif name in UNREADABLE:
        assert answers == {"status": 409, "timeline": 200, "artifacts": 200}
    else:
        assert set(answers.values()) == {200}


def test_a_run_that_is_damaged_is_not_gone_on_with(server):
    answer = server.http.post(f"{server.url}/rl/jobs/{server.ids['events']}/resume", json={})
    assert answer.status_code == 409, answer.text


@pytest.mark.parametrize("action", [["pause"], {"pause": 1}, 7, None, "halt"])
def test_an_action_is_one_of_the_words(server, action):
    answer = server.http.post(f"{server.url}/rl/jobs/{server.ids['well']}/control", json={"action": action})
    assert (answer.status_code, answer.json()["error"]["code"]) == (422, "no_such_action")
