"""`python -m trainer.taskapp serve` as a real process."""

import contextlib
import json
import os
import signal
import socket
import subprocess
import sys
import time
from pathlib import Path

import httpx
import psutil
import pytest

from .conftest import KEY

ROOT = Path(__file__).parents[2]
COMMAND = [sys.executable, "-m", "trainer.taskapp", "serve"]
RAW_APP = """
print("a print at import")
async def app(scope, receive, send):
    if scope["type"] == "http":
        await send({"type": "http.response.start", "status": 200, "headers": []})
        await send({"type": "http.response.body", "body": b"raw"})
"""
CONFIG_APP = """
from helper_beside_it import ANSWER
from trainer.taskapp.server import TaskAppConfig
def build_config():
    return TaskAppConfig("mine", "Mine", "", {}, dict, list, lambda r, h: ANSWER)
"""
REGISTERED_APP = """
from trainer.taskapp.registry import register_task_app
async def made(scope, receive, send):
    if scope["type"] == "http":
        await send({"type": "http.response.start", "status": 200, "headers": []})
        await send({"type": "http.response.body", "body": b"registered"})
APP_ID = "other-name"
register_task_app("other-name", lambda: made)
"""


def start(*args, key=KEY, **options):
    env = os.environ | {"PYTHONPATH": str(ROOT)}
    env.pop("ENVIRONMENT_API_KEY", None)
    if key:
        env["ENVIRONMENT_API_KEY"] = key
    pipe = subprocess.PIPE
    return subprocess.Popen([*COMMAND, *args], env=env, stdout=pipe, stderr=pipe, text=True, **options)


def first_line(process):
    return json.loads(process.stdout.readline())


def failed(*args, **options):
    """The one line of a start that fails."""
    process = start(*args, **options)
    out, err = process.communicate(timeout=60)
    assert process.returncode == 2 and out.count("\n") == 1 and "Traceback" not in err
    line = json.loads(out)
    assert line["type"] == "error" and line["hint"]
    return line["message"] + " " + line["hint"]


def test_a_builtin_app_is_served_and_ends_on_sigterm():
    process = start("builtin:facts")
    ready = first_line(process)
    assert ready["type"] == "ready" and ready["name"] == "facts"
    assert ready["url"].startswith("http://127.0.0.1:")
    assert httpx.get(ready["url"] + "/health", headers={"X-API-Key": KEY}).json()["healthy"] is True
    assert httpx.get(ready["url"] + "/health").status_code == 400
    # Not even an episode that hangs on its policy holds the process.
    with socket.create_server(("127.0.0.1", 0)) as silent:
        url = f"http://127.0.0.1:{silent.getsockname()[1]}"
        body = {"run_id": "c", "env": {"seed": 0}, "policy": {"config": {"inference_url": url}}}
        with pytest.raises(httpx.ReadTimeout):
            httpx.post(ready["url"] + "/rollout", json=body, headers={"X-API-Key": KEY}, timeout=0.3)
        process.send_signal(signal.SIGTERM)
        out, _ = process.communicate(timeout=60)
    assert out == ""


def test_it_ends_when_its_parent_dies():
    start_child = f"p = subprocess.Popen({[*COMMAND, 'facts']!r})"
    script = f"import subprocess; {start_child}; print(p.pid, flush=True); p.wait()"
    env = os.environ | {"PYTHONPATH": str(ROOT), "ENVIRONMENT_API_KEY": KEY}
    parent = subprocess.Popen([sys.executable, "-c", script], stdout=subprocess.PIPE, env=env, text=True)
    child = psutil.Process(int(parent.stdout.readline()))
    assert json.loads(parent.stdout.readline())["type"] == "ready"
    parent.kill()
    parent.wait()
    deadline = time.monotonic() + 60
    while child.is_running() and child.status() != psutil.STATUS_ZOMBIE:
        assert time.monotonic() < deadline
        time.sleep(0.02)


BLOCKING_APP = """
import time
async def app(scope, receive, send):
    if scope["type"] == "http":
        print("in the loop", flush=True)
        time.sleep(600)
"""


@pytest.mark.parametrize("how", ["told", "orphaned"])
def test_an_app_that_blocks_the_event_loop_ends_all_the_same(tmp_path, how):
    (tmp_path / "blocks.py").write_text(BLOCKING_APP)
    serve = "import trainer.taskapp.serve as s; s.END_S = s.PARENT_POLL_S = 0.2; s.run()"
    command = [sys.executable, "-c", serve, "serve", str(tmp_path / "blocks.py")]
    start_child = f"p = subprocess.Popen({command!r}, stderr=subprocess.STDOUT)"
    script = f"import subprocess; {start_child}; print(p.pid, flush=True); p.wait()"
    env = os.environ | {"PYTHONPATH": str(ROOT), "ENVIRONMENT_API_KEY": KEY}
    parent = subprocess.Popen([sys.executable, "-c", script], stdout=subprocess.PIPE, env=env, text=True)
    child = psutil.Process(int(parent.stdout.readline()))
    try:
        with pytest.raises(httpx.ReadTimeout):
            httpx.get(json.loads(parent.stdout.readline())["url"], timeout=0.5)
        assert parent.stdout.readline() == "in the loop\n"
        child.terminate() if how == "told" else parent.kill()
        parent.wait(60)
        deadline = time.monotonic() + 60
        while child.is_running() and child.status() != psutil.STATUS_ZOMBIE:
            assert time.monotonic() < deadline
            time.sleep(0.02)
    finally:
        parent.kill()
        with contextlib.suppress(psutil.NoSuchProcess):
            child.kill()


@pytest.mark.parametrize(
    ("text", "path", "body"),
    [(RAW_APP, "/x", "raw"), (REGISTERED_APP, "/x", "registered"), (CONFIG_APP, "/", '"service":"mine"')],
    ids=["app", "registry", "build_config"],
)
def test_a_file_is_served(tmp_path, text, path, body):
    (tmp_path / "my_app.py").write_text(text)
    (tmp_path / "helper_beside_it.py").write_text("ANSWER = {}")
    process = start(str(tmp_path / "my_app.py"))
    ready = first_line(process)
    assert ready["name"] == "my_app" and body in httpx.get(ready["url"] + path).text
    process.terminate()
    _, err = process.communicate(timeout=60)
    assert ("a print at import" in err) == (text is RAW_APP)


def test_starts_that_fail_say_why(tmp_path):
    assert "Known: facts, guess" in failed("builtin:nope")
    assert "no file" in failed(str(tmp_path / "none.py"))
    assert "ENVIRONMENT_API_KEY is not set" in failed("facts", key=None)
    assert "refusing to serve on 0.0.0.0" in failed("facts", "--host", "0.0.0.0", key=None)
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = str(taken.getsockname()[1])
        assert f"port {port}: Address already in use" in failed("facts", "--port", port)


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("x = 1", "holds no task app Define build_config(), which gives a TaskAppConfig; or app, fastapi_app()"),
        ("import nothing_of_that_name", "No module named 'nothing_of_that_name' (bad.py, line 1)"),
        ("def f(:", "was loaded: SyntaxError: invalid syntax (bad.py, line 1) Correct"),
        ("def create_app():\n    return 3", "gives a int, not a task app"),
        ("def create_app():\n    raise RuntimeError('boom')", "boom (bad.py, line 2)"),
        ("raise SystemExit(0)", "SystemExit"),
    ],
)
def test_files_that_are_no_task_app_say_why(tmp_path, text, words):
    (tmp_path / "bad.py").write_text(text)
    assert words in failed(str(tmp_path / "bad.py"))
