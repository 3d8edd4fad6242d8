"""The server is killed, and comes again: its jobs go on, none is lost, none is started twice."""

from __future__ import annotations

import contextlib
import random
import signal
import threading
import time
from collections import defaultdict

import httpx
import pytest

from tests.server.conftest import body
from tests.server_faults.conftest import (
    LONG,
    Follower,
    Serve,
    changes,
    finish,
    folder_of,
    is_coordinator,
    post,
    processes_of,
    starts,
)
from tests.waiting import until
from trainer.rundir import RunReader

LIFE = ["job.created", "job.started"]


@pytest.mark.parametrize(
    ("running", "waiting", "real"), [(3, 1, False), pytest.param(10, 3, True, marks=pytest.mark.slow)]
)
def test_running_jobs_outlive_a_server_that_is_killed_twice(
    serve: Serve, running: int, waiting: int, real: bool
) -> None:
    server = serve(cpu_jobs=running)
    labels = ["real" if real and i == 0 else "stand-in" for i in range(running)]
    going = [post(server, label) for label in labels]
    queued = [post(server, "waits") for _ in range(waiting)]
    followers = {job_id: Follower(server.url, job_id) for job_id in going + queued}

    def all_go_on() -> None:
        had = {job_id: len(followers[job_id].events) for job_id in going}
        until(lambda: all(len(followers[job_id].events) > had[job_id] + 3 for job_id in going), 240)

    all_go_on()
    first = starts(server)
    for at_rest in (True, False):
        server.kill()
        assert all(is_coordinator(first[job_id][0], job_id) for job_id in going)
        server.start(server.port)
        if at_rest:  # the second time it goes just after it came
            all_go_on()
    all_go_on()
    queue = server.get("/system")["queue"]
    assert (queue["running"], queue["queued"]) == (running, waiting)
    for job_id in going:
        run = server.get(f"/rl/jobs/{job_id}/status")["run"]
        assert (run["pid"], run["state"], run["attempt"]) == (first[job_id][0], "running", 1)
    assert starts(server) == first

    finish(server)
    if real:
        server.post(f"/rl/jobs/{going[0]}/cancel", {})
    for job_id, follower in followers.items():
        ended = server.until(job_id, "succeeded", "cancelled", "failed")
        assert ended["status"] == ("cancelled" if real and job_id == going[0] else "succeeded"), ended["error"]
        follower.has_all(server)
        end = "job.cancelled" if ended["status"] == "cancelled" else "job.completed"
        assert follower.events[-1]["type"] == f"rl.{end}"
    until(lambda: server.get("/system")["queue"]["running"] == 0)
    found = starts(server)
    assert {job_id: len(pids) for job_id, pids in found.items()} == dict.fromkeys(going + queued, 1)
    assert {job_id: found[job_id] for job_id in going} == {job_id: first[job_id] for job_id in going}
    assert [pid for job_id in found for pid in processes_of(job_id)] == []
    told = changes(server, len(found))
    assert {job_id: life[:2] for job_id, life in told.items()} == dict.fromkeys(going + queued, LIFE)
    assert all(len(life) == 3 for life in told.values())


@pytest.mark.parametrize("kills", [1, pytest.param(6, marks=pytest.mark.slow)])
def test_keys_that_are_sent_again_find_the_jobs_that_were_made(serve: Serve, kills: int) -> None:
    """Three clients submit, each key until it is answered; the server is killed at moments that nobody chose."""
    seed = random.randrange(1 << 32)
    print("seed", seed)
    chance = random.Random(seed)
    server = serve(cpu_jobs=2)
    url, port = server.url, server.port
    finish(server)  # each run ends soon after its start
    keys = [f"key-{i}" for i in range(9 + 3 * kills)]
    answers: dict[str, list[tuple[int, str]]] = defaultdict(list)
    all_sent = threading.Event()

    def send(key: str, http: httpx.Client) -> None:
        while True:
            try:
                answer = http.post(f"{url}/rl/jobs", json=body(LONG), headers={"Idempotency-Key": key})
            except httpx.HTTPError:
                time.sleep(0.02)
                continue
            answers[key].append((answer.status_code, answer.json()["job_id"]))
            return

    def submit(number: int) -> None:
        with httpx.Client(trust_env=False, timeout=30) as http:
            for key in keys[number::3]:
                send(key, http)
            all_sent.wait()
            for key in keys:  # also those of others
                send(key, http)

    clients = [threading.Thread(target=submit, args=(number,), daemon=True) for number in range(3)]
    [client.start() for client in clients]
    for kill in range(kills):
        until(lambda kill=kill: len(answers) > 3 * kill, 120)
        time.sleep(chance.uniform(0.0, 0.3))
        server.kill()
        server.start(port)
    until(lambda: len(answers) == len(keys), 120)
    all_sent.set()
    [client.join(120) for client in clients]

    made = {key: {job_id for _, job_id in found} for key, found in answers.items()}
    assert all(len(found) == 1 for found in made.values()), made
    jobs = {job_id for found in made.values() for job_id in found}
    assert len(jobs) == len(keys) == len(list(server.runs.glob("*-rl_*")))
    assert all([status for status, _ in found].count(201) <= 1 for found in answers.values())
    assert all(len(found) == 4 and found[-1][0] == 200 for found in answers.values())
    for job_id in jobs:
        server.until(job_id, "succeeded")
        recorded = RunReader(folder_of(server, job_id)).events()
        assert [event["seq"] for event in recorded] == list(range(1, len(recorded) + 1))
        assert [event["type"] for event in recorded].count("rl.job.created") == 1
    assert {job_id: len(pids) for job_id, pids in starts(server).items()} == dict.fromkeys(jobs, 1)
    assert changes(server, len(jobs)) == {job_id: [*LIFE, "job.completed"] for job_id in jobs}


@pytest.mark.parametrize("moment", ["before", "after"])
def test_a_start_in_whose_middle_the_server_is_killed_is_one_start(serve: Serve, moment: str) -> None:
    server = serve(DIE=moment)
    with contextlib.suppress(httpx.HTTPError):  # it may be quicker than its answer
        server.http.post("/rl/jobs", json=body(LONG))
    assert server.process.wait(30) == -signal.SIGKILL
    server.kill()
    del server.env["DIE"]
    server.start(server.port)
    (job,) = server.get("/rl/jobs")["jobs"]
    follower = Follower(server.url, job["job_id"])
    until(lambda: len(follower.events) > 3)
    finish(server)
    server.until(job["job_id"], "succeeded")
    follower.has_all(server)
    assert [len(pids) for pids in starts(server).values()] == [1]
    assert changes(server, 1) == {job["job_id"]: [*LIFE, "job.completed"]}
