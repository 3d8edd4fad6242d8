"""One real run through the whole of its life as a job: queued behind nothing, watched, its server killed, steered,
stopped, gone on with. And what a server answers meanwhile."""

import json
import threading

import httpx
import pytest

from tests.server.conftest import Server, body
from tests.waiting import free_port, until
from trainer.rundir.process import start_time_of

LONG = {"training": {"iterations_per_epoch": 2_000}, "checkpoint": {"every_n_iters": 0}}


@pytest.fixture(scope="module")
def server(tmp_path_factory):
    found = Server(tmp_path_factory.mktemp("live"), port=free_port())
    yield found
    for job in found.get("/rl/jobs")["jobs"]:
        found.post(f"/rl/jobs/{job['job_id']}/cancel", {"mode": "now"})
    until(lambda: found.get("/system")["queue"]["running"] == 0, 120)
    found.stop()


class Watch(threading.Thread):
    """Asks for a job's status all the time, as pollers do, whatever becomes of the server."""

    def __init__(self, url: str, job_id: str) -> None:
        super().__init__(daemon=True)
        self.url, self.job_id, self.seen, self.done = url, job_id, [], threading.Event()
        self.start()

    def run(self) -> None:
        with httpx.Client(timeout=10, trust_env=False) as http:
            while not self.done.wait(0.05):
                try:
                    answer = http.get(f"{self.url}/rl/jobs/{self.job_id}/status")
                except httpx.HTTPError:
                    continue
                assert answer.status_code == 200
                if self.seen[-1:] != [answer.json()["status"]]:
                    self.seen.append(answer.json()["status"])


def events(server, job_id):
    return server.get(f"/rl/jobs/{job_id}/events", limit=5_000)["events"]


@pytest.mark.slow
def test_a_real_job_over_a_killed_server_a_stop_and_a_resume(server):
    barrier = threading.Barrier(2)

    def post(made):
        barrier.wait()
        with httpx.Client(base_url=server.url, timeout=30, trust_env=False) as http:
            made.append(http.post("/rl/jobs", json=body(LONG), headers={"idempotency-key": "one"}))

    made: list[httpx.Response] = []
    clients = [threading.Thread(target=post, args=(made,)) for _ in range(2)]
    [client.start() for client in clients]
    [client.join() for client in clients]
    assert sorted(answer.status_code for answer in made) == [200, 201]
    (job_id,) = {answer.json()["job_id"] for answer in made}
    waiting = server.post("/learning/jobs", body(), 201)["id"]
    watch = Watch(server.url, job_id)
    until(lambda: server.get(f"/jobs/{job_id}")["progress"]["updates"] >= 1, 300)
    run = server.get(f"/rl/jobs/{job_id}/status")["run"]

    server.kill()
    assert start_time_of(run["pid"]) == run["start_time"]
    server.start(server.port)
    assert server.get(f"/rl/jobs/{job_id}/status")["run"]["pid"] == run["pid"]
    assert server.get(f"/rl/jobs/{job_id}")["attempt"] == 1
    assert server.post("/rl/jobs", body(LONG), 200, Idempotency_Key="one")["job_id"] == job_id
    conflict = server.post("/rl/jobs", body(), 409, Idempotency_Key="one")
    assert job_id in conflict["detail"]
    queue = server.get("/system")["queue"]
    assert (queue["running"], queue["queued"]) == (1, 1)
    assert len(list(server.runs.glob("my-run-*"))) == 2
    assert [job["job_id"] for job in server.get("/rl/jobs", status="queued")["data"]] == [waiting]
    assert server.get(f"/rl/jobs/{waiting}/status")["queue_position"] == 1

    refused = server.post(f"/rl/jobs/{job_id}/control", {"action": "set", "args": {"training.group_size": 2}}, 422)
    assert "training.group_size may not change" in refused["detail"]
    asked = server.post(f"/rl/jobs/{job_id}/control", {"action": "checkpoint"}, 202)
    until(
        lambda: any(
            event["type"] == "rl.control.done" and event["data"]["control_id"] == asked["control_id"]
            for event in events(server, job_id)
        )
    )
    assert server.post(f"/rl/jobs/{job_id}/resume", {}, 409)["error"]["code"] == "not_ended"
    assert server.post(f"/rl/jobs/{job_id}/start", {})["status"] == "running"
    assert server.post(f"/orchestration/jobs/{waiting}/cancel")["status"] == "cancelled"
    assert server.post(f"/rl/jobs/{waiting}/control", {"action": "pause"}, 409)["error"]["code"] == "not_live"

    stopping = server.post(f"/jobs/{job_id}/cancel", {})
    assert stopping["status"] == "running"
    stopped = server.until(job_id, "cancelled")
    assert (stopped["end_reason"], stopped["phase"]) == ("stopped", "done")
    assert server.post(f"/rl/jobs/{job_id}/cancel", {"mode": "now"})["status"] == "cancelled"
    until(lambda: server.get("/system")["queue"]["running"] == 0)
    assert start_time_of(run["pid"]) is None
    files = {item["name"]: item for item in server.get(f"/rl/jobs/{job_id}/artifacts")["artifacts"]}
    step = stopped["checkpoints"][-1]["step"]
    assert {f"checkpoints/step_{step}/{name}" for name in ("manifest.json", "optimizer/manifest.json")} <= files.keys()
    adapter = files[f"checkpoints/step_{step}/adapter_model.safetensors"]
    assert len(server.http.get(adapter["url"].removeprefix("/api")).content) == adapter["bytes"]

    for given, status in (
        ({"overrides": {"training.group_size": 2}}, 422),
        ({"from": 10**6}, 409),
        ({"from": "x"}, 422),
    ):
        server.post(f"/rl/jobs/{job_id}/resume", given, status)
    more = stopped["progress"]["completed"] + 2
    again = server.post(f"/rl/jobs/{job_id}/resume", {"overrides": {"training": {"iterations_per_epoch": more}}}, 201)
    assert (again["status"], again["attempt"], again["error"]) == ("queued", 2, None)
    ended = server.until(job_id, "succeeded", "failed", "cancelled", limit_s=300)
    assert (ended["status"], ended["attempt"], ended["progress"]["completed"]) == ("succeeded", 2, more)
    assert ended["model_id"] == ended["fine_tuned_model"] == f"rl:builtin:tiny:{job_id}"
    assert ended["results"]["status"] == "succeeded"
    assert {model["id"] for model in server.get("/models")["data"]} >= {ended["model_id"], f"ft:{job_id}@{step}"}
    runs = server.get(f"/rl/jobs/{job_id}/runs")["runs"]
    assert [(found["attempt"], found["status"]) for found in runs] == [(1, "cancelled"), (2, "succeeded")]
    phases = [entry["phase"] for entry in server.get(f"/rl/jobs/{job_id}/timeline", limit=5_000)["timeline"]]
    assert (phases[0], phases[-1]) == ("created", "completed")
    found = events(server, job_id)
    assert [event["seq"] for event in found] == list(range(1, len(found) + 1))
    assert [event["type"] for event in found].count("rl.job.created") == 1

    until(lambda: watch.seen[-1:] == ["succeeded"])
    watch.done.set()
    life = iter(["queued", "running", "cancelled", "queued", "running", "succeeded"])
    assert all(word in life for word in watch.seen), watch.seen  # in this order, whatever a poll missed
    changes = stream(server, 0, of=job_id, to="job.completed")
    assert [change["type"] for change in changes] == [
        "job.created", "job.started", "job.cancelled", "job.created", "job.started", "job.completed",
    ]  # fmt: skip
    assert sorted(change["seq"] for change in changes) == [change["seq"] for change in changes]


def stream(server, since, *, of, to):
    """The changes of one job, from the stream over all, up to one type."""
    found = []
    with httpx.stream("GET", f"{server.url}/jobs/stream", params={"since_seq": since}, trust_env=False) as answer:
        assert answer.headers["content-type"] == "text/event-stream"
        for line in answer.iter_lines():
            if line.startswith("data: ") and (change := json.loads(line[6:]))["job_id"] == of:
                found.append(change)
                if change["type"] == to:
                    return found
    return found


def test_lists_are_paged_and_filtered(server):
    for number in range(3):
        made = server.post("/rl/jobs", {**body(LONG), "tags": {"n": str(number), "page": "x"}}, 201)
        assert made["tags"] == {"n": str(number), "page": "x"}
    first = server.get("/rl/jobs", tag="page", limit=2, _t=1, nonsense="x")
    assert (len(first["jobs"]), first["has_more"], first["data"] == first["jobs"]) == (2, True, True)
    rest = server.get("/rl/jobs", tag="page", limit=2, after=first["next_cursor"])
    assert (len(rest["jobs"]), rest["has_more"], rest["next_cursor"]) == (1, False, None)
    assert [job["tags"]["n"] for job in first["jobs"] + rest["jobs"]] == ["2", "1", "0"]
    assert len(server.get("/jobs", tag="n=1")["jobs"]) == 1
    assert server.get("/rl/jobs", model="other")["jobs"] == []
    assert server.get("/rl/jobs", created_after="1h", tag="page")["jobs"] != []
    assert server.get("/rl/jobs", created_before="2020-01-01T00:00:00Z")["jobs"] == []
    assert server.http.get("/rl/jobs", params={"created_after": "soon"}).status_code == 422
    for job in first["jobs"] + rest["jobs"]:
        server.post(f"/rl/jobs/{job['id']}/cancel", {"mode": "now"})


def test_what_is_not_a_job_is_refused_in_one_shape(server):
    bad = body({"training": {"group_size": 5, "zzz": 1}})
    cases = [
        (server.http.post("/rl/jobs", content=b"{"), 400, "malformed"),
        (server.http.post("/rl/jobs", content=b"[" * 100_000), 400, "malformed"),
        (server.http.post("/rl/jobs", json=[]), 422, "wrong_shape"),
        (server.http.post("/rl/jobs", json=bad), 422, "invalid_config"),
        (server.http.post("/rl/jobs", json=body({"services": {"task_url": "x.py"}})), 422, "code_not_allowed"),
        (server.http.get("/rl/jobs/rl_none"), 404, "not_found"),
        (server.http.get("/jobs/..%2f..%2fetc/status"), 404, "no_such_route"),
        (server.http.post("/rl/jobs/rl_none/cancel"), 404, "not_found"),
        (server.http.post("/prompt-learning/online/jobs"), 404, "not_supported"),
        (server.http.get("/nowhere"), 404, "no_such_route"),
        (server.http.delete("/rl/jobs"), 405, "no_such_method"),
    ]
    for answer, status, code in cases:
        found = answer.json()
        assert (answer.status_code, found["error"]["code"]) == (status, code), answer.text
        assert list(found) == ["detail", "error"]
        assert "\n" not in found["detail"]
        assert found["error"]["message"] == found["detail"]
    errors = cases[3][0].json()["error"]["errors"]
    assert {item["key"] for item in errors} == {"training.group_size", "training.zzz"}


def test_a_task_app_is_verified_from_the_server(server):
    bad = server.post("/rl/verify_task_app", {"endpoint_base_url": server.url})  # healthy, and no task app
    assert (bad["any_ok"], bad["candidates_first15"]) == (False, [])
    assert [(attempt["ok"], attempt["status"]) for attempt in bad["attempts"]] == [(True, 200), (False, 404)]
    refused = server.post("/rl/verify_task_app", {"endpoint_base_url": "http://169.254.169.254"}, 422)
    assert refused["error"]["code"] == "url_not_allowed"
    url = server.get("/rl/services/any")["training_start_url"]
    assert url == f"{server.url}/rl/jobs"
