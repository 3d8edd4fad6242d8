"""The Ray target against a dashboard that answers as Ray's does; tests/ray has a real one."""

from __future__ import annotations

import json
import shlex
import subprocess
import threading
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

import pytest

from rltui.launch.base import Job, LaunchError
from rltui.launch.ray import NO_FOLDER, RayLauncher, RayRun, entrypoint, environment
from rltui.launch.ray_jobs import RayJobs, dashboard_of
from rltui.launch.runs import find
from rltui.sources.local import LocalRunSource


class Dashboard:
    """`jobs`: what it says of each; a probe is a job that has `looks` for its end."""

    def __init__(self) -> None:
        self.jobs: dict[str, dict] = {}
        self.bodies: list[dict] = []
        self.asked: list[str] = []
        self.looks = {"status": "SUCCEEDED", "driver_exit_code": 0}
        self.code = 200
        board = self

        class Handler(BaseHTTPRequestHandler):
            def log_message(self, *_):
                pass

            def _say(self, code: int, body: dict | str) -> None:
                data = (body if isinstance(body, str) else json.dumps(body)).encode()
                self.send_response(code)
                self.send_header("Content-Length", str(len(data)))
                self.end_headers()
                self.wfile.write(data)

            def _answer(self) -> None:
                board.asked.append(f"{self.command} {self.path}")
                body = json.loads(self.rfile.read(int(self.headers.get("Content-Length") or 0)) or b"{}")
                if board.code != 200:
                    return self._say(board.code, "Traceback\nRuntimeError: the head is on fire\x1b[2J")
                if self.path == "/api/version":
                    return self._say(200, {"ray_version": "2.60.0"})
                if self.command == "POST" and self.path == "/api/jobs/":
                    name = body["submission_id"]
                    if name in board.jobs:
                        return self._say(500, f"ValueError: Job with submission_id {name} already exists.")
                    board.bodies.append(body)
                    board.jobs[name] = board.looks if name.startswith("rltui-look") else {"status": "PENDING"}
                    return self._say(200, {"submission_id": name})
                found = board.jobs.get(self.path.split("/")[3])
                return self._say(404, "no such job") if found is None else self._say(200, found)

            do_GET = do_POST = do_DELETE = _answer

        self._server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self.address = f"http://127.0.0.1:{self._server.server_port}"
        threading.Thread(target=self._server.serve_forever, daemon=True).start()

    def close(self) -> None:
        self._server.shutdown()
        self._server.server_close()


@pytest.fixture
def board():
    dashboard = Dashboard()
    yield dashboard
    dashboard.close()


@pytest.fixture
def job(tmp_path) -> Job:
    config = tmp_path / "my run.toml"
    config.write_text("")
    return Job(config, tmp_path / "run 1", "rl_1", key="k1", environ={})


@pytest.mark.parametrize(
    ("text", "address"),
    [
        ("ray://head:10001", "http://head:8265"),
        ("ray://10.0.0.1", "http://10.0.0.1:8265"),
        ("ray:http://head:9000/", "http://head:9000"),
        ("ray:https://ray.example", "https://ray.example"),
        ("ray:head:8265", None),
        ("ray://", None),
    ],
)
def test_which_dashboard_a_target_means(text, address):
    if address is None:
        with pytest.raises(LaunchError, match="is no Ray cluster"):
            dashboard_of(text)
    else:
        assert dashboard_of(text) == address


def test_a_run_is_submitted_once_under_its_key_and_followed(board, job):
    launcher = RayLauncher(f"ray:{board.address}")
    run = launcher.start(job)
    launcher.start(job)  # asked twice
    [body] = board.bodies
    assert body["submission_id"] == run.submission_id == "rl_1-k1" and "rl_1-k1" in run.where
    assert (job.folder / "logs" / "coordinator.log").stat().st_mode & 0o777 == 0o600
    assert run.exit_code() is None and "pending" in run.waiting()
    for said, code in [
        ({"status": "RUNNING"}, None),
        ({"status": "SUCCEEDED", "driver_exit_code": 0}, 0),
        ({"status": "FAILED", "driver_exit_code": 3}, 3),
        ({"status": "FAILED", "driver_exit_code": -9}, 137),
        ({"status": "STOPPED"}, 130),
        ({"status": "FAILED"}, 3),
    ]:
        board.jobs["rl_1-k1"] = said
        assert RayRun(RayJobs(board.address), "rl_1-k1", job.folder).exit_code() == code
    run.stop()
    assert board.asked[-1] == "POST /api/jobs/rl_1-k1/stop"


def test_whoever_looks_at_a_run_learns_from_the_dashboard_that_it_is_lost(board, job, monkeypatch):
    run = RayLauncher(f"ray:{board.address}").start(job)
    assert (job.folder / "ray.json").stat().st_mode & 0o777 == 0o600
    source = find(str(job.folder)).source
    silent = {"state": "running", "silent": True}
    monkeypatch.setattr(LocalRunSource, "status", lambda source: dict(silent))
    board.jobs[run.submission_id] = {"status": "RUNNING"}
    assert source.status() == silent
    board.jobs[run.submission_id] = {"status": "FAILED", "message": "the node died"}
    status = find(str(job.folder)).source.status()
    assert (status["state"], status["error"]["code"]) == ("failed", "process_lost")
    assert "the node died" in status["error"]["message"] and "resumed" in status["error"]["hint"]
    board.code = 500  # a dashboard that is gone says nothing
    assert find(str(job.folder)).source.status() == silent


def test_a_dashboard_that_is_gone_raises_nothing_while_a_run_is_watched(board, job):
    run = RayLauncher(f"ray:{board.address}").start(job)
    run._look_s = 0.0
    board.code = 500
    assert run.exit_code() is None and run.state() is None
    assert "gives no answer" in run.waiting()
    run.stop()
    board.code = 200
    assert run.waiting()


def test_what_the_entrypoint_does_where_the_folder_is_seen_and_where_it_is_not(job, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    line = entrypoint(job)
    done = subprocess.run(["sh", "-c", line], capture_output=True, text=True)
    assert done.returncode == NO_FOLDER and "does not see" in done.stderr
    (job.folder / "logs").mkdir(parents=True)
    fake = tmp_path / "python"
    fake.write_text('#!/bin/sh\necho "$@"; pwd; echo bad >&2\n')
    fake.chmod(0o755)
    monkeypatch.setattr("sys.executable", str(fake))
    assert subprocess.run(["sh", "-c", entrypoint(job)]).returncode == 0
    said, where = (job.folder / "logs" / "coordinator.jsonl").read_text().splitlines()
    assert said.startswith(f"-P -m trainer run {job.config} --run-dir {job.folder} --job-id rl_1")
    assert where == str(tmp_path) and (job.folder / "logs" / "coordinator.log").read_text() == "bad\n"
    monkeypatch.setattr("sys.executable", "/not/there/python")
    assert "command -v /not/there/python || command -v python" in entrypoint(job)


def test_no_secret_goes_into_the_environment_that_ray_keeps(job):
    given = {
        "RLTUI__training__seed": "7",
        "RLTUI_LOG_LEVEL": "DEBUG",
        "RLTUI_API_KEY": "t0ken-of-a-server-1234567890",
        "ENVIRONMENT_API_KEY": "secret-1234567890abcdef",
        "OPENAI_API_KEY": "sk-1234567890abcdefghij",
        "RLTUI__services__judge_url": "https://user:pass@judge.example",
        "PATH": "/bin",
    }
    found = environment(Job(job.config, job.run_dir, "rl_1", environ=given))
    assert found["RLTUI__training__seed"] == "7" and found["RLTUI_LOG_LEVEL"] == "DEBUG"
    assert sorted(found.keys() & given.keys()) == ["RLTUI_LOG_LEVEL", "RLTUI__training__seed"]


@pytest.mark.parametrize(
    ("looks", "ok", "text"),
    [
        ({"status": "SUCCEEDED", "driver_exit_code": 0}, True, "is seen on the cluster"),
        ({"status": "FAILED", "driver_exit_code": NO_FOLDER}, False, "is not seen on the cluster"),
        ({"status": "FAILED", "message": "no room"}, None, "failed: no room"),
    ],
)
def test_a_small_job_looks_for_the_folder_and_leaves_no_mark(board, job, tmp_path, looks, ok, text):
    board.looks = looks
    keyed = Job(job.config, job.run_dir, "rl_1", environ={"OPENAI_API_KEY": "x"})
    reach, keys, seen = RayLauncher(f"ray:{board.address}").facts(keyed)
    assert reach.ok and "Ray 2.60.0" in reach.text and keys.ok is None and "OPENAI_API_KEY" in keys.text
    assert seen.ok is ok and text in seen.text and (seen.ok or seen.fix or ok is None)
    mark = Path(shlex.split(board.bodies[0]["entrypoint"])[2])
    assert mark.parent == tmp_path and not mark.exists()
    assert any(line.startswith("DELETE /api/jobs/rltui-look") for line in board.asked)


@pytest.mark.parametrize(("code", "text"), [(401, "wants a token"), (500, "the head is on fire")])
def test_a_dashboard_that_says_no_is_a_fact(board, code, text):
    board.code = code
    [fact] = RayLauncher(f"ray:{board.address}").facts()
    assert fact.ok is False and text in fact.text and "\x1b" not in fact.text


def test_nobody_at_the_address_is_a_fact_that_says_what_else_can_be_given(job):
    [fact] = RayLauncher("ray:http://127.0.0.1:1").facts(job)
    assert fact.ok is False and "no answer from the Ray dashboard" in fact.text and "ray:http://" in fact.fix
    with pytest.raises(LaunchError, match="no answer"):
        RayLauncher("ray:http://127.0.0.1:1").start(job)
