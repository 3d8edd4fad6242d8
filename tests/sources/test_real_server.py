"""A live run over the job server as it is served: watched, steered, the connection cut, and ended."""

from __future__ import annotations

import subprocess
import sys
import threading
from collections.abc import Iterator
from pathlib import Path

import pytest

from rltui.backend import Backend
from rltui.model.steering import Steering
from rltui.server.app import job_server
from rltui.server.auth import Access
from rltui.server.jobs import Jobs
from rltui.server.slots import Places
from rltui.server.submit import House
from rltui.sources.base import TERMINAL, Unreadable
from rltui.sources.http import HttpRunSource
from rltui.sources.local import LocalRunSource
from tests.server_reads.serving import Server
from tests.sources.test_run_source import drained
from tests.waiting import until

JOB = "rl_0000000000000000"


@pytest.fixture
def folder(tmp_path: Path) -> Iterator[Path]:
    folder = tmp_path / "runs" / f"live-{JOB}"
    command = [sys.executable, "-m", "trainer.rundir.synth", str(folder), "--episodes", "64", "--live", "200"]
    process = subprocess.Popen(command, stdout=subprocess.DEVNULL)
    until(lambda: (folder / "status.json").exists())
    yield folder
    process.kill()
    process.wait()


@pytest.fixture
def server(folder: Path) -> Iterator[Server]:
    jobs = Jobs(House(folder.parent, False, {}), Places(gpus=(), cpu_jobs=1))
    server = Server(app=job_server(jobs, Access()))
    yield server
    server.close()


def test_a_live_run_is_watched_steered_and_ended(server: Server, folder: Path) -> None:
    with Backend(server.url) as backend:
        source = HttpRunSource(backend, JOB)
        status = until(source.status)
        assert status["state"] == "running" and source.place.endswith(f"/api/rl/jobs/{JOB}")
        seen: list[int] = []
        reading = threading.Thread(
            target=lambda: seen.extend(event["seq"] for event in backend.events(f"/rl/jobs/{JOB}/events/stream"))
        )
        reading.start()
        metrics, cursor = drained(source, "metrics")
        until(lambda: len(drained(source, "metrics", cursor)[0]) >= 2)  # it goes on
        steering = Steering(source)
        assert steering.ask("pause").state == "asked"
        until(lambda: steering.poll() and steering.requests[-1].settled)
        assert steering.requests[-1].state == "refused"  # as a synthetic run does
        steering.ask("stop")
        until(lambda: source.status()["state"] in TERMINAL)
        reading.join(60)
        assert not reading.is_alive() and seen == list(range(1, len(seen) + 1))
        assert seen[-1] == source.events(-1).rows[-1]["seq"]
        rows, cursor = drained(source, "metrics", cursor, metrics)
        assert rows == drained(LocalRunSource(folder), "metrics")[0]
        with pytest.raises(ValueError, match=r"ended|cancelled"):
            source.request("pause")


def test_kill_ends_the_processes_of_the_run(server: Server, folder: Path) -> None:
    with Backend(server.url) as backend:
        source = HttpRunSource(backend, JOB)
        until(source.status)
        source.kill()
        assert (
            until(lambda: (status := source.status()) and status["state"] in TERMINAL and status)["state"] != "running"
        )


def test_a_job_that_is_gone_is_said(server: Server, folder: Path) -> None:
    with Backend(server.url) as backend, pytest.raises(Unreadable, match="no job"):
        HttpRunSource(backend, "rl_ffffffffffffffff").status()
