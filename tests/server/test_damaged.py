"""What clients send and what lies in the runs folder may be odd: it harms that request, or that job, and no other."""

import json
import os
import shutil

import pytest
from starlette.testclient import TestClient

from rltui.server.app import job_server
from rltui.server.auth import Access
from tests.server.conftest import body
from trainer.rundir.synth import SynthConfig, write_run


@pytest.fixture
def runs(tmp_path):
    """Finished runs, all but one of them odd; the odd ones by what is odd."""
    whole = tmp_path / "whole"
    write_run(whole, SynthConfig(episodes=16, kind="healthy", learner_blocks=False))
    status = json.loads((whole / "status.json").read_text())
    odd = {"whole": {}, "link": {}, "attempt": {"attempt": "9"}, "iteration": {"iteration": "x"}}
    odd |= {"pipeline": {"pipeline": {"gpus": 3}, "state": "running"}, "words": {"error": 1, "best": [], "totals": "x"}}
    (tmp_path / "runs").mkdir()
    for number, (name, fields) in enumerate(odd.items()):
        folder = tmp_path / "runs" / name
        shutil.copytree(whole, folder)
        (folder / "status.json").write_text(json.dumps({**status, "job_id": f"rl_{number:016x}", **fields}))
    (tmp_path / "runs" / "link" / "events.jsonl").unlink()
    os.symlink(whole / "events.jsonl", tmp_path / "runs" / "link" / "events.jsonl")
    return tmp_path / "runs"


@pytest.fixture
def client(make_jobs):
    with TestClient(job_server(make_jobs(), Access()), "http://127.0.0.1/api", raise_server_exceptions=False) as found:
        yield found


def test_an_odd_run_takes_no_other_away(runs, client):
    jobs = {job["job_id"]: job for job in client.get("/rl/jobs").json()["jobs"]}
    assert len(jobs) == 6
    link = jobs[f"rl_{1:016x}"]
    assert link["error"]["code"] == "unreadable"
    assert "events.jsonl" in link["error"]["message"]
    assert [job["status"] for job in jobs.values()].count("succeeded") >= 4
    assert all(job["error"] is None for job in jobs.values() if job not in (link, jobs[f"rl_{4:016x}"]))
    for path in ("", "/status"):
        assert client.get(f"/rl/jobs/{link['job_id']}{path}").status_code == 200
    for path in ("/artifacts", "/artifacts/checkpoints/step_1/manifest.json", "/timeline"):
        answer = client.get(f"/rl/jobs/{link['job_id']}{path}")
        assert (answer.status_code, answer.json()["error"]["code"]) == (409, "unreadable"), path
    whole = [item for item in client.get("/artifacts", params={"limit": 1000}).json()["artifacts"]]
    assert {item["job_id"] for item in whole} == jobs.keys() - {link["job_id"]}
    assert client.get("/models").status_code == 200


def deep(levels):
    return {"a": deep(levels - 1)} if levels else {}


@pytest.mark.parametrize(
    ("path", "given", "code"),
    [
        ("/rl/jobs", {"job_type": "rl", "data": {"config": deep(900)}}, "too_deep"),
        ("/rl/jobs", body({"rollout": {"env_config": deep(900)}}), "too_deep"),
        ("/rl/jobs", body(metadata=deep(900)), "too_deep"),
        ("/rl/jobs", body(tags={"x": "y" * 9_000}), "too_large"),
        ("/rl/jobs", body({"tags": {"x": "y" * 9_000}}), "too_large"),
        ("/rl/jobs", body(metadata={"x": "y" * 9_000}), "too_large"),
        ("/rl/jobs/rl_none/control", {"action": ["pause"]}, "no_such_action"),
    ],
)
def test_an_odd_body_is_refused(client, path, given, code):
    answer = client.post(path, json=given)
    assert (answer.status_code, answer.json()["error"]["code"]) == (422, code)


def test_lists_leave_out_what_the_client_noted(client):
    made = client.post("/rl/jobs", json=body({"checkpoint": {}}, metadata={"note": "x"}))
    assert made.json()["metadata"] == {"note": "x"}
    (job,) = client.get("/rl/jobs").json()["jobs"]
    assert "metadata" not in job
    assert client.get(f"/rl/jobs/{job['id']}").json()["metadata"] == {"note": "x"}
    client.post(f"/rl/jobs/{job['id']}/cancel", json={"mode": "now"})


def test_who_asks_is_kept_with_the_job(client):
    headers = {"X-User-ID": "ann", "X-Org-ID": "lab" * 100}
    made = client.post("/rl/jobs", json=body({"checkpoint": {}}, metadata={"note": "x"}), headers=headers).json()
    assert made["metadata"] == {"note": "x", "user_id": "ann", "org_id": ("lab" * 100)[:200]}
    client.post(f"/rl/jobs/{made['job_id']}/cancel", json={"mode": "now"})
