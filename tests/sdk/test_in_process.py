"""InProcessTaskApp: its inputs, its port, its key, its addresses, and that it ends."""

from __future__ import annotations

import asyncio
import contextlib
import os
import signal
import socket
import subprocess
import sys
import threading
from pathlib import Path

import httpx
import pytest
from starlette.applications import Starlette
from starlette.responses import JSONResponse
from starlette.routing import Route

from rltui import InProcessTaskApp
from rltui.sdk.task.addressing import plan
from rltui.sdk.task.hosting import listen
from tests.fake_cloudflared import install
from tests.sdk import hello_app

APP = Path(hello_app.__file__)
REMOTE = "https://train.example.com"


def health(app, url=None):
    headers = {"X-API-Key": app.api_key}
    return httpx.get(f"{url or app.url}/health", headers=headers, trust_env=False).status_code


@pytest.fixture
def cloudflared(tmp_path, monkeypatch):
    monkeypatch.setenv("PATH", f"{install(tmp_path)}{os.pathsep}{os.environ['PATH']}")
    monkeypatch.setenv("FAKE_CLOUDFLARED", str(tmp_path))
    monkeypatch.setenv("FAKE_CLOUDFLARED_FORWARD", "127.0.0.1")
    return tmp_path


def processes(folder):
    starts = folder / "starts"
    pids = [int(line) for line in starts.read_text().splitlines()] if starts.exists() else []
    return len(pids), [pid for pid in pids if os.path.exists(f"/proc/{pid}")]


@pytest.mark.parametrize(
    ("arguments", "error", "words"),
    [
        ({}, ValueError, "exactly one"),
        ({"app": object(), "task_app_path": APP}, ValueError, "exactly one"),
        ({"task_app_path": "none.py"}, FileNotFoundError, "none.py"),
        ({"task_app_path": APP.parent}, ValueError, "must be a .py file"),
        ({"task_app_path": APP, "port": 80}, ValueError, "1024 to 65535"),
        ({"task_app_path": APP, "host": "10.0.0.1"}, ValueError, "host must be"),
        ({"task_app_path": APP, "tunnel_mode": "slow"}, ValueError, "tunnel_mode must be"),
    ],
)
def test_wrong_arguments_are_refused_at_once(arguments, error, words):
    with pytest.raises(error, match=words):
        InProcessTaskApp(**arguments)


@pytest.mark.parametrize("given", ["task_app_path", "config", "config_factory", "app"])
async def test_each_input_is_served_on_loopback_and_ends(given, caplog):
    inputs = {
        "task_app_path": str(APP),
        "config": hello_app.build_config(),
        "config_factory": hello_app.build_config,
        "app": Starlette(routes=[Route("/health", lambda request: JSONResponse({}))]),
    }
    told = []
    async with InProcessTaskApp(
        **{given: inputs[given]}, port=21000, on_start=lambda app: told.append(app.url), on_stop=lambda app: 1 / 0
    ) as app:
        assert app.url == f"http://127.0.0.1:{app.port}" == told[0] and health(app) == 200
        assert app.api_key == os.environ["ENVIRONMENT_API_KEY"] and len(app.api_key) > 20  # a random one
    with pytest.raises(httpx.ConnectError):
        health(app)
    assert "ZeroDivisionError" in caplog.text and "no tunnel is opened" in caplog.text
    assert not [thread for thread in threading.enumerate() if thread.name == "rltui-task-app"]


async def test_the_key_is_the_argument_or_the_variable(monkeypatch):
    monkeypatch.setenv("ENVIRONMENT_API_KEY", "mine")
    async with InProcessTaskApp(task_app_path=APP, port=21100) as app:
        assert app.api_key == "mine" and health(app) == 200
    async with InProcessTaskApp(task_app_path=APP, port=21100, api_key="other") as app:
        assert os.environ["ENVIRONMENT_API_KEY"] == "other" and health(app) == 200
        app.api_key = "mine"
        assert health(app) == 400


async def test_a_taken_port_is_left_alone(caplog):
    with listen("127.0.0.1", 21200, find=True) as taken:
        port = taken.getsockname()[1]
        async with InProcessTaskApp(task_app_path=APP, port=port) as app:
            assert port < app.port <= port + 100 and f"port {port} is taken" in caplog.text
        with pytest.raises(RuntimeError, match=rf"port {port} .* taken by .*\(pid {os.getpid()}\)"):
            async with InProcessTaskApp(task_app_path=APP, port=port, auto_find_port=False):
                pass
        socket.create_connection(("127.0.0.1", port)).close()  # it listens as it did before


async def test_a_file_without_an_app_and_an_app_that_cannot_start_are_told(tmp_path, monkeypatch):
    with listen("127.0.0.1", 21300, find=True) as free:
        port = free.getsockname()[1]
    empty = tmp_path / "empty.py"
    empty.write_text("x = 1\n")
    with pytest.raises(RuntimeError, match=r"holds no task app.*build_config.*create_app.*register_task_app"):
        async with InProcessTaskApp(task_app_path=empty, port=port):
            pass
    broken = Starlette(lifespan=_fails)
    with pytest.raises(RuntimeError, match="failed while it started"):
        async with InProcessTaskApp(app=broken, port=port):
            pass
    asked = []
    sick = Starlette(routes=[Route("/health", lambda request: asked.append(request) or JSONResponse({}, 503))])
    loop = asyncio.get_running_loop()
    clock = loop.time
    monkeypatch.setattr(loop, "time", lambda: clock() + 30 * (len(asked) > 1))  # its time is over after one answer
    with pytest.raises(RuntimeError, match=r"not ready within 30 s: /health=503"):
        async with InProcessTaskApp(app=sick, port=port):
            pass
    with listen("127.0.0.1", port, find=False):
        pass  # nothing is left there


@contextlib.asynccontextmanager
async def _fails(app):
    raise ValueError("no start")
    yield


@pytest.mark.parametrize(
    ("asked", "env", "mode", "url"),
    [
        ("quick", {}, "local", None),
        ("local", {"BACKEND_BASE_URL": REMOTE}, "local", None),
        ("quick", {"BACKEND_BASE_URL": REMOTE, "PATH": ""}, "local", None),
        ("quick", {"SYNTH_TUNNEL_MODE": "quick"}, "quick", None),
        ("quick", {"SYNTH_TUNNEL_MODE": "local", "BACKEND_BASE_URL": REMOTE}, "local", None),
        ("named", {"SYNTH_TUNNEL_HOSTNAME": "app.example.com"}, "named", "https://app.example.com"),
        ("preconfigured", {}, "preconfigured", "https://p"),
        ("local", {"SYNTH_TASK_APP_URL": "https://given/"}, "preconfigured", "https://given"),
    ],
)
def test_the_mode_by_argument_environment_and_job_server(asked, env, mode, url, monkeypatch):
    monkeypatch.setattr("shutil.which", lambda program: None)
    got = plan(asked, "https://p/", env)
    assert (got.mode, got.url) == (mode, url)
    assert bool(got.why) == (asked == "quick" and mode == "local" and "SYNTH_TUNNEL_MODE" not in env)


def test_a_mode_that_lacks_something_is_refused():
    for asked, url, env in (
        ("named", None, {}),
        ("preconfigured", None, {}),
        ("local", None, {"SYNTH_TUNNEL_MODE": "no"}),
    ):
        with pytest.raises(ValueError, match=r"SYNTH_"):
            plan(asked, url, env)


async def test_a_tunnel_leads_to_the_app_while_the_callers_loop_is_held_up_and_ends_with_it(cloudflared, monkeypatch):
    monkeypatch.setenv("BACKEND_BASE_URL", REMOTE)
    monkeypatch.setenv("SYNTH_TUNNEL_VERIFY_INITIAL_DELAY_SECS", "0")
    async with InProcessTaskApp(task_app_path=APP, port=21400, skip_tunnel_verification=False) as app:
        assert app.url != f"http://127.0.0.1:{app.port}"
        assert health(app) == 200  # a blocking call in this loop
        assert processes(cloudflared) == (1, processes(cloudflared)[1]) and len(processes(cloudflared)[1]) == 1
    assert processes(cloudflared) == (1, [])


async def test_a_tunnel_that_is_refused_is_tried_again_and_then_told(cloudflared, monkeypatch):
    monkeypatch.setenv("SYNTH_TUNNEL_MODE", "quick")
    monkeypatch.setenv("SYNTH_TUNNEL_MAX_ATTEMPTS", "2")
    (cloudflared / "refuse").touch()
    with pytest.raises(RuntimeError, match=r"cloudflared ended while it opened a tunnel.*SYNTH_TUNNEL_MODE=local"):
        async with InProcessTaskApp(task_app_path=APP, port=21500):
            pass
    assert processes(cloudflared) == (2, [])


async def test_cancelling_ends_the_app():
    up = asyncio.Event()

    async def body():
        async with InProcessTaskApp(task_app_path=APP, port=21600) as app:
            ports.append(app.port)
            up.set()
            await asyncio.sleep(60)

    ports = []
    task = asyncio.create_task(body())
    await up.wait()
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task
    with pytest.raises(ConnectionRefusedError):
        socket.create_connection(("127.0.0.1", ports[0]))


CTRL_C = """
import asyncio, os, signal, sys, threading
from rltui import InProcessTaskApp, RLJob
from rltui.backend import BackendError

async def main():
    async with InProcessTaskApp(task_app_path=sys.argv[1], port=21700) as app:
        job = RLJob.from_job_id("rl_1", app.url)
        job._ask = lambda: {"status": "running"}
        ctrl_c = threading.Timer(0.2, os.kill, [os.getpid(), signal.SIGINT])
        ctrl_c.start()
        try:
            job.poll_until_complete(interval=60)
        finally:
            ctrl_c.join()
            print("left", flush=True)

try:
    asyncio.run(main())
except KeyboardInterrupt:
    print("KeyboardInterrupt", [t.name for t in threading.enumerate()])
"""


def test_ctrl_c_in_a_blocking_poll_stops_the_app_and_propagates(tmp_path):
    done = subprocess.run([sys.executable, "-c", CTRL_C, str(APP)], capture_output=True, text=True, timeout=60)
    assert done.stdout.splitlines() == ["left", "KeyboardInterrupt ['MainThread']"], done.stderr
    assert done.returncode == 0 and signal.getsignal(signal.SIGINT) is signal.default_int_handler
