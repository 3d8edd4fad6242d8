"""`rltui serve` as a command: where it says it is, one of it at a time, and a clean end."""

import json
import os
import signal
import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor

import httpx

from rltui.server import serve
from tests.server.conftest import COMMAND, Server, environment
from tests.waiting import free_port, until
from trainer.rundir.process import ProcessId


def ensure(folder, port, *options):
    done = subprocess.run(
        [*COMMAND, "--ensure", "--port", str(port), *options],
        env=environment(folder),
        cwd=folder,
        capture_output=True,
        timeout=120,
    )
    return done.returncode, json.loads(done.stdout.decode().splitlines()[-1]), done.stderr.decode()


def test_it_says_where_it_is_and_takes_that_back_when_it_ends(tmp_path):
    server = Server(tmp_path)
    place = tmp_path / "state" / "rltui" / f"server-{server.port}.json"
    told = json.loads(place.read_text())
    assert told == {name: value for name, value in server.told.items() if name != "schema"}
    assert told["pid"] == server.process.pid
    assert told["runs_dir"] == str(tmp_path / "runs")
    queue = server.get("/system")["queue"]
    assert (queue["running"], queue["queued"], queue["cpu_jobs"]) == (0, 0, 1)
    assert server.stop() == 0
    assert not place.exists()


TOLD = """
import socket, sys
from pathlib import Path
from rltui.server.serve import Options, serve

def announce(told, made):
    socket.create_connection(("127.0.0.1", int(told["url"].split(":")[2].split("/")[0]))).close()
    sys.exit(7)

serve(Options("127.0.0.1", 0, Path("runs").absolute(), False, 1, (), False), announce)
"""


def test_who_is_told_where_it_is_may_come_at_once(tmp_path):
    command = [sys.executable, "-c", TOLD]
    done = subprocess.run(command, env=environment(tmp_path), cwd=tmp_path, capture_output=True)
    assert done.returncode == 7, done.stderr


def test_a_server_that_was_begun_a_moment_ago_is_waited_for(tmp_path, monkeypatch):
    told = iter([False, False, True])
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path))
    monkeypatch.setattr(serve.place, "living", lambda port: {"url": "http://127.0.0.1:8787/api"})
    monkeypatch.setattr(serve, "_answers", lambda url: next(told))
    monkeypatch.setattr(serve, "_start", None)
    options = serve.Options("127.0.0.1", 8787, tmp_path, False, 1, (), False)
    assert serve.ensure(options)["url"] == "http://127.0.0.1:8787/api" and not list(told)


def test_an_open_stream_does_not_keep_it_from_ending(tmp_path):
    server = Server(tmp_path)
    with httpx.stream("GET", f"{server.url}/jobs/stream", trust_env=False, timeout=30) as stream:
        parts = stream.iter_raw()
        next(parts)
        assert server.stop() == 0
        assert b"".join(parts) == b""


def test_two_that_ensure_a_server_get_the_same_one(tmp_path):
    port = free_port()
    with ThreadPoolExecutor() as pool:
        (first, one, _), (second, two, _) = pool.map(lambda _: ensure(tmp_path, port), range(2))
    process = ProcessId(**{name: one[name] for name in ("pid", "start_time", "host", "boot_id")})
    try:
        assert (first, second) == (0, 0)
        assert one == two
        assert one["url"] == f"http://127.0.0.1:{port}/api"
        assert os.getsid(one["pid"]) == one["pid"]  # it outlives the terminal
        for number in (0, 1, 2):  # and holds no stream of who started it
            assert os.readlink(f"/proc/{one['pid']}/fd/{number}") in ("/dev/null", str(log(tmp_path, port)))
    finally:
        process.signal(signal.SIGTERM)
    until(lambda: not process.alive())


def log(folder, port):
    return folder / "state" / "rltui" / f"server-{port}.log"


def test_a_port_that_is_taken_is_said_in_a_sentence(tmp_path):
    server = Server(tmp_path)
    other = tmp_path / "other"
    other.mkdir()
    code, found, words = ensure(other, server.port)
    assert code == 3
    assert f"cannot listen on 127.0.0.1 port {server.port}" in words
    assert "Traceback" not in words
    assert found["ok"] is False
    done = subprocess.run(
        [*COMMAND, "--port", "0", "--runs-dir", str(server.runs)],
        env=environment(other),
        cwd=other,
        capture_output=True,
    )
    assert done.returncode == 3
    assert b"another job server has" in done.stderr
    server.stop()
