"""Many clients, and some that do not read: the others are served, and nothing of it is kept for long."""

from __future__ import annotations

import contextlib
import os
import resource
import socket
from collections.abc import Iterator
from pathlib import Path

import httpx
import psutil
import pytest

from rltui.server import files
from tests.server.conftest import Server
from tests.server_reads.serving import Server as Reads
from tests.server_reads.serving import job_of
from tests.server_reads.test_files import big_checkpoint
from tests.waiting import until
from trainer.rundir import RunWriter, run_folder_name

JOB = "rl_00000000000000aa"
EVENT_BYTES = 20_000
SLOW, EVENTS = 20, 1_500


@pytest.fixture
def writer(tmp_path: Path) -> Iterator[RunWriter]:
    with RunWriter(tmp_path / "runs" / run_folder_name("many", JOB), job_id=JOB, label="many") as writer:
        writer.event("rl.job.created", "Job created", step=0)
        writer.status(state="running", phase="training")
        yield writer


@pytest.fixture
def server(tmp_path: Path, writer: RunWriter) -> Iterator[Server]:
    """It begins with few files that it may open at once."""
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (min(soft, 256), hard))
    try:
        server = Server(tmp_path)
    finally:
        resource.setrlimit(resource.RLIMIT_NOFILE, (soft, hard))
    until(lambda: server.get("/rl/jobs")["jobs"])
    yield server
    server.stop()


def asking(port: int, path: str) -> socket.socket:
    """A client that asks, and reads only what it is told to."""
    client = socket.create_connection(("127.0.0.1", port), timeout=30)
    client.sendall(f"GET /api/rl/jobs/{path} HTTP/1.1\r\nHost: 127.0.0.1\r\n\r\n".encode())
    return client


def test_more_streams_than_files_at_the_start(server: Server, writer: RunWriter) -> None:
    clients = [asking(server.port, f"{JOB}/events/stream") for _ in range(400)]
    try:
        assert all(client.recv(15) == b"HTTP/1.1 200 OK" for client in clients)
        assert server.get(f"/rl/jobs/{JOB}/status")["status"] == "running"
    finally:
        for client in clients:
            client.close()


def test_clients_that_do_not_read_hold_nobody_up(server: Server, writer: RunWriter) -> None:
    process = psutil.Process(server.process.pid)
    name = big_checkpoint(writer.paths.root, 48 << 20)
    paths = [f"{JOB}/events/stream", f"{JOB}/artifacts/{name}"]
    slow = [asking(server.port, paths[i % 2]) for i in range(SLOW)]
    for client in slow:
        assert client.recv(15) == b"HTTP/1.1 200 OK"
    before, seqs = process.memory_info().rss, []
    with httpx.stream("GET", f"{server.url}/rl/jobs/{JOB}/events/stream", trust_env=False, timeout=30) as answer:
        lines = answer.iter_lines()
        for i in range(EVENTS):
            writer.event("rl.train.step", "a step", step=i, text="x" * EVENT_BYTES)
            if i % 50 == 0:  # who reads keeps up
                while not seqs or seqs[-1] < writer.last_seq:
                    line = next(lines)
                    seqs += [int(line[4:])] if line.startswith("id: ") else []
                assert server.http.get(f"/rl/jobs/{JOB}/status").status_code == 200
    assert seqs == list(range(1, len(seqs) + 1))
    assert process.memory_info().rss - before < 4 * EVENTS * EVENT_BYTES  # not once for each of them
    for client in slow:
        client.close()
    until(lambda: len([c for c in process.net_connections() if c.status == "ESTABLISHED"]) <= 2)


def test_a_download_that_nobody_reads_is_ended(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(files, "STALL_S", 0.5)
    name, server = big_checkpoint(tmp_path / "run", 48 << 20), Reads()
    file = tmp_path / "run" / name

    def is_open() -> bool:
        for fd in os.listdir("/proc/self/fd"):
            with contextlib.suppress(OSError):  # closed since
                if os.readlink(f"/proc/self/fd/{fd}") == str(file):
                    return True
        return False

    with asking(server.port, f"{job_of(tmp_path / 'run')}/artifacts/{name}") as client:
        came = len(client.recv(15))  # it is open before the answer begins
        until(lambda: not is_open())
        while data := client.recv(1 << 20):
            came += len(data)
        assert came < file.stat().st_size
    server.close()
