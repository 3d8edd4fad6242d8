"""What programs written for other job servers do, and must find here (WIRE 3.8). The server is the real one; the run
of a job is a stand-in, which writes a real run directory and takes no time."""

from __future__ import annotations

import json

import httpx
import pytest

from rltui.sdk.task.hosting import HostedApp, listen
from rltui.server.app import job_server
from rltui.server.auth import Access
from tests.server.conftest import CONFIG, body, make_jobs  # noqa: F401 (a fixture)
from tests.waiting import until
from trainer.rundir.synth import SynthConfig, write_run

TERMINAL = {"succeeded", "failed", "cancelled"}
WORDS = {"queued", "running", *TERMINAL}


@pytest.fixture
def client(make_jobs, monkeypatch):  # noqa: F811
    """A client of a server with room for one job, whose runs go on until they are cancelled."""
    monkeypatch.setenv("FAKE_STEPS", "100000")
    with listen("127.0.0.1", 23000, find=True) as listener:
        hosted = HostedApp(job_server(make_jobs(), Access()), listener)
        hosted.start()
        base = f"http://127.0.0.1:{listener.getsockname()[1]}"
        with httpx.Client(base_url=base, timeout=30, trust_env=False) as http:
            yield http
        hosted.stop()


def get(client, path, **params):
    answer = client.get(path, params=params, headers={"Accept": "application/json"})
    assert answer.status_code == 200, answer.text
    assert answer.headers["content-type"].startswith("application/json")  # or the poller of the SDK reads {}
    return answer.json()


def created(client, posted=None):
    answer = client.post("/api/rl/jobs", json=posted or body())
    assert answer.status_code in (200, 201), answer.text
    return answer.json()["job_id"]


def running(client, job_id):
    return until(lambda: get(client, f"/api/rl/jobs/{job_id}")["phase"] == "training")


def blocks(lines, most):
    """Of an event stream, read as old parsers do: by LF, one data line a block."""
    found = []
    for line in lines:
        assert "\r" not in line
        if line.startswith("data:"):
            found.append(json.loads(line[5:]))
        if len(found) >= most:
            return found
    return found


def test_a_poll_always_has_one_of_the_five_words(client):
    """RLJob asks for the job, the others for its status; none knows another word."""
    job_id, queued = created(client), created(client)
    assert get(client, f"/api/rl/jobs/{queued}")["status"] == "queued"
    running(client, job_id)
    for path in (f"/api/rl/jobs/{job_id}", f"/api/learning/jobs/{job_id}", f"/api/rl/jobs/{job_id}/status"):
        assert get(client, path)["status"] == "running"
    for one in (job_id, queued):
        assert client.post(f"/api/rl/jobs/{one}/cancel", json={}).json()["status"] in WORDS
        seen = set()
        until(lambda one=one, seen=seen: seen.add(get(client, f"/api/rl/jobs/{one}")["status"]) or seen & TERMINAL)
        assert seen <= WORDS and "cancelled" in seen


def test_the_stream_is_there_as_soon_as_the_job_is(client):
    """The command line opens it at once, and takes anything but 200 for the end."""
    created(client)  # takes the only place, so that the next one waits
    job_id = created(client)
    with client.stream("GET", f"/api/rl/jobs/{job_id}/events/stream") as stream:
        assert stream.status_code == 200 and stream.headers["content-type"].startswith("text/event-stream")
        (first,) = blocks(stream.iter_lines(), 1)
    assert first["type"] == "rl.job.created" and first["seq"] == 1 and first["job_id"] == job_id
    url = f"/api/rl/jobs/{job_id}/events/stream?since_seq=1"
    with client.stream("GET", url) as stream:  # nothing to replay: something comes at once all the same
        (first,) = blocks(stream.iter_lines(), 1)
    assert first["type"] == "rl.heartbeat" and first["seq"] == 1


def test_a_job_that_waits_never_looks_dead_to_the_older_client(client):
    """It counts the entries of each answer, and gives up after five empty ones."""
    created(client)
    job_id, last = created(client), 0
    for _ in range(6):
        events = get(client, f"/api/learning/jobs/{job_id}/events", since_seq=last, limit=200)["events"]
        assert events
        last = max(last, *(int(event["seq"]) for event in events))
    assert last == 1  # and the heartbeat is no event: it has no number of its own
    assert get(client, f"/api/learning/jobs/{job_id}/events", since_seq=last, heartbeat=0)["events"] == []
    client.post(f"/api/jobs/{job_id}/cancel", json={})
    until(lambda: get(client, f"/api/rl/jobs/{job_id}")["status"] == "cancelled")
    seq = get(client, f"/api/rl/jobs/{job_id}")["last_seq"]
    assert get(client, f"/api/learning/jobs/{job_id}/events", since_seq=seq)["events"] == []


def test_events_by_both_prefixes_and_by_accept(client):
    job_id = created(client)
    running(client, job_id)
    for prefix in ("rl", "learning", "orchestration"):
        path = f"/api/{prefix}/jobs/{job_id}/events"
        found = get(client, path, since_seq=0)
        event = found["events"][0]
        assert event["type"] == event["event_type"] == "rl.job.created" and event["timestamp"] == event["created_at"]
        with client.stream("GET", path, params={"since_seq": 0}, headers={"Accept": "text/event-stream"}) as stream:
            assert stream.headers["content-type"].startswith("text/event-stream")
            assert blocks(stream.iter_lines(), 1)[0]["seq"] == 1


def test_points_by_the_highest_step_over_all_names(client, monkeypatch):
    """The older client asks with the maximum step that it has seen, and reads step 0 as none."""
    job_id = created(client)
    until(lambda: get(client, f"/api/rl/jobs/{job_id}/metrics")["points"])
    after, steps = -1, {}
    for _ in range(3):
        points = get(client, f"/api/learning/jobs/{job_id}/metrics", after_step=after, limit=2)["points"]
        for point in points:
            assert point["step"] >= 1 or point["phase"] == "eval"
            steps.setdefault(point["name"], []).append(point["step"])
        after = max([after, *(point["step"] for point in points)])
    for name, seen in steps.items():
        assert seen == sorted(set(seen)), name  # none is lost, none comes twice


def test_the_status_command(client):
    """Lists under `jobs` or `data`, timeline under `timeline` or `events`; a linked job would be a second stream."""
    job_id = created(client)
    lists = get(client, "/api/learning/jobs", limit=5)
    assert lists["jobs"] == lists["data"] and [job["job_id"] for job in lists["jobs"]] == [job_id]
    timeline = get(client, f"/api/learning/jobs/{job_id}/timeline", limit=5)
    assert timeline["timeline"] == timeline["events"] and timeline["events"]
    job = get(client, f"/api/learning/jobs/{job_id}", include_metadata="true")
    assert job["linked_job_id"] is None and job["id"] == job["job_id"] == job_id
    assert get(client, f"/api/rl/jobs/{job_id}", _t=1234567, of_mine="x")["job_id"] == job_id
    started = client.post(f"/api/rl/jobs/{job_id}/start", json={})
    assert started.status_code == 200 and started.json()["job_id"] == job_id
    assert get(client, f"/api/learning/jobs/{job_id}/runs")["runs"]
    assert "data" in get(client, f"/api/learning/jobs/{job_id}/artifacts")


def test_the_terminal_interface(client):
    job_id = created(client)
    jobs = get(client, "/api/jobs", limit=50)
    assert jobs["jobs"][0]["job_id"] == job_id
    assert get(client, f"/api/learning/jobs/{job_id}")["status"] in WORDS
    running(client, job_id)
    assert client.post(f"/api/jobs/{job_id}/cancel", json={}).status_code == 200
    until(lambda: get(client, f"/api/learning/jobs/{job_id}")["status"] == "cancelled")
    events = get(client, f"/api/jobs/{job_id}/events", limit=5000)["events"]
    assert [event["seq"] for event in events] == list(range(1, len(events) + 1))
    assert all(event["timestamp"] == event["created_at"] for event in events)


@pytest.mark.parametrize("shape", ["with trainer", "flat"])
def test_the_bodies_of_older_clients(client, shape, tmp_path):
    config = {**CONFIG, "training": {**CONFIG["training"], "batch_size": 4}}
    parts = {
        "model": "builtin:tiny",
        "endpoint_base_url": "builtin:facts",
        "config": config,
        "trainer": {"batch_size": 8, "group_size": 2},
    }
    posted = {"job_type": "rl", "data": parts} if shape == "with trainer" else {**parts, "trainer_id": "t"}
    job_id = created(client, posted)
    (folder,) = (tmp_path / "runs").glob(f"*{job_id}")
    text = (folder / "config.toml").read_text()
    assert "group_size = 2" in text and "batch_size = 8" in text  # the trainer's numbers lie on top of the config's


def test_the_artifacts_command(client, tmp_path):
    """It reads models under keys of their kinds, and says that there are none where the count is 0."""
    write_run(tmp_path / "runs" / f"mine-rl_{7:016x}", SynthConfig(episodes=64, seed=7))
    until(lambda: get(client, "/api/jobs")["jobs"])
    found = get(client, "/api/artifacts", type="models", status="succeeded", limit=50)
    (model,), checkpoints = found["rl_models"], found["fine_tuned_models"]
    assert model["id"].startswith("rl:") and checkpoints and checkpoints[0]["id"].startswith(f"ft:rl_{7:016x}@")
    assert {"id", "base_model", "created_at", "job_id"} <= model.keys() & checkpoints[0].keys()
    assert found["artifacts"] == found["data"] == get(client, "/api/artifacts")["data"]
    assert found["summary"]["total_count"] == len(found["data"]) == 1 + len(checkpoints)
    for params in ({"type": "prompts"}, {"status": "failed"}):
        assert get(client, "/api/artifacts", **params)["summary"]["total_count"] == 0


def test_an_app_that_is_down_is_told_with_200(client, monkeypatch):
    """The client ends on any other status, and without a word on why."""
    monkeypatch.setattr("trainer.taskapp.client.GATE_WAITS_S", ())
    answer = client.post("/api/rl/verify_task_app", json={"endpoint_base_url": "http://127.0.0.1:9"})
    assert answer.status_code == 200
    told = answer.json()
    assert told["any_ok"] is False and told["candidates_first15"] == []
    (attempt,) = {item["error"]: item for item in told["attempts"]}.values()
    assert attempt["ok"] is False and attempt["error"]


def test_what_an_older_client_asks_of_a_trainer(client):
    url = get(client, "/api/rl/services/any")["training_start_url"]
    assert url.endswith("/api/rl/jobs")
    answer = client.get("/api/prompt-learning/online/jobs/x")
    assert answer.status_code == 404 and answer.json()["error"]["code"] == "not_supported"
