"""Job servers that get killed, and those who follow the jobs of one meanwhile."""

from __future__ import annotations

import contextlib
import json
import os
import signal
import threading
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import httpx
import psutil
import pytest

import rltui.backend
from rltui.backend import Backend
from tests.server.conftest import ROOT, Server, body
from tests.waiting import free_port
from trainer.rundir import RunReader
from trainer.rundir.process import start_time_of

THERE = Path(__file__).parent / "there"
LONG = {"training": {"iterations_per_epoch": 2_000}}
Serve = Callable[..., Server]


@pytest.fixture
def serve(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Serve]:
    """`serve(cpu_jobs, NAME=…)`: a job server whose runs go on until `finish(server)`"""
    for name in ("RLTUI_API_KEY", "SYNTH_API_KEY", "ENVIRONMENT_API_KEY"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setattr(rltui.backend, "WAITS_S", (0.1, 0.5))
    made: list[Server] = []

    def start(cpu_jobs: int = 1, **variables: str) -> Server:
        folder = tmp_path / "server"
        folder.mkdir()
        env = {"PYTHONPATH": f"{ROOT}:{THERE}", **variables}
        server = Server(folder, "--cpu-jobs", str(cpu_jobs), env=env, port=free_port())
        made.append(server)
        return server

    yield start
    for server in made:
        finish(server)
        if server.process.poll() is None:
            server.kill()
        for job_id, pids in starts(server).items():
            for pid in pids:
                if is_coordinator(pid, job_id):
                    os.killpg(pid, signal.SIGKILL)


def post(server: Server, label: str, **more: Any) -> str:
    """A job; its id. One that is called `real` is a real run."""
    return str(server.post("/rl/jobs", body({"policy": {"label": label}, **LONG}), 201, **more)["job_id"])


def finish(server: Server) -> None:
    (server.folder / "finish").touch()


def folder_of(server: Server, job_id: str) -> Path:
    (found,) = server.runs.glob(f"*-{job_id}")
    return found


def starts(server: Server) -> dict[str, list[int]]:
    """Of each job that has a folder: the pids of the coordinators that were started for it."""
    found: dict[str, list[int]] = {}
    for folder in server.runs.glob("*-rl_*"):
        path = folder / "starts"
        found[folder.name.rpartition("-")[2]] = list(map(int, path.read_text().split())) if path.exists() else []
    return found


def is_coordinator(pid: int, job_id: str) -> bool:
    with contextlib.suppress(psutil.Error):
        return start_time_of(pid) is not None and job_id in psutil.Process(pid).cmdline()
    return False


def processes_of(job_id: str) -> list[int]:
    """Every process of this machine that names the job."""
    found = []
    for process in psutil.process_iter():
        with contextlib.suppress(psutil.Error):
            if job_id in " ".join(process.cmdline()):
                found.append(process.pid)
    return found


def changes(server: Server, jobs: int) -> dict[str, list[str]]:
    """By job, the types of its changes in the stream over all, up to the end of the last one of so many jobs."""
    found: dict[str, list[str]] = {}
    seqs: list[int] = []
    ended = 0
    with httpx.stream("GET", f"{server.url}/jobs/stream?since_seq=0", trust_env=False, timeout=30) as answer:
        for line in answer.iter_lines():
            if line.startswith("data: ") and (change := json.loads(line[6:])).get("job_id"):
                found.setdefault(change["job_id"], []).append(change["type"])
                seqs.append(change["seq"])
                ended += change["type"] in ("job.completed", "job.failed", "job.cancelled")
                if ended == jobs:
                    break
    assert seqs == list(range(1, len(seqs) + 1))
    return found


class Follower(threading.Thread):
    """Reads the events of a job by SSE until it has ended, whatever becomes of the connection."""

    def __init__(self, url: str, job_id: str) -> None:
        super().__init__(daemon=True)
        self.url, self.job_id = url, job_id
        self.events: list[dict[str, Any]] = []
        self.start()

    def run(self) -> None:
        with Backend(self.url) as backend:
            for event in backend.events(f"/rl/jobs/{self.job_id}/events/stream"):
                self.events.append(event)

    def has_all(self, server: Server) -> None:
        """It is done, and has every event of the run once."""
        self.join(120)
        assert not self.is_alive()
        recorded = RunReader(folder_of(server, self.job_id)).events(limit=1_000_000)
        assert [event["seq"] for event in self.events] == list(range(1, len(recorded) + 1))
        assert self.events == recorded
