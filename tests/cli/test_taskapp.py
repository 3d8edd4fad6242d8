"""`rltui taskapp` and `rltui scan`, with real servers."""

import contextlib
import json
import os
import re
import signal
import subprocess
import sys
import threading

import httpx
import psutil
import pytest

from rltui.cli.main import main
from tests.taskapp.conftest import serving
from trainer.taskapp import scan
from trainer.taskapp.builtin import facts
from trainer.taskapp.server import create_task_app

ENV_NAMES = ("ENVIRONMENT_API_KEY", "dev_environment_api_key", "DEV_ENVIRONMENT_API_KEY", "ENVIRONMENT_API_KEY_ALIASES")


@pytest.fixture(autouse=True)
def no_key(monkeypatch):
    for name in ENV_NAMES:
        monkeypatch.delenv(name, raising=False)


@contextlib.contextmanager
def served(*args, **env):
    """`rltui taskapp serve ARGS` as a process, ended by Ctrl-C; yields it once it said its first line."""
    command = [
        sys.executable,
        "-c",
        "import sys; from rltui.cli.main import main; sys.exit(main())",
        "taskapp",
        "serve",
    ]
    process = subprocess.Popen(
        [*command, *args, "--port", "0"],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        env={**os.environ, **env},
    )
    guard = threading.Timer(200, process.kill)
    guard.start()
    try:
        yield process
        children = psutil.Process(process.pid).children()
        process.send_signal(signal.SIGINT)
        assert process.wait(60) == 0
        assert children and not any(child.is_running() for child in children)
        assert "Traceback" not in process.stderr.read()
    finally:
        guard.cancel()
        process.kill()
        process.wait()
        process.stdout.close()
        process.stderr.close()


def read_until(process, pattern):
    text = ""
    while not (match := re.search(pattern, text)):
        line = process.stdout.readline()
        assert line, process.stderr.read()
        text += line
    return match, text


def test_list_names_apps_splits_and_packages(capsys):
    assert main(["taskapp", "list"]) == 0
    out = capsys.readouterr().out
    assert re.search(r"^facts +Answer .*\(train 160, test 40\)$", out, re.MULTILINE)
    assert "reasoning_gym:DATASET" in out
    assert main(["taskapp", "list", "--json"]) == 0
    data = json.loads(capsys.readouterr().out)
    assert {app["name"]: app["splits"]["train"] for app in data["apps"]} == {"facts": 160, "guess": 10_000}
    assert data["packages"][0]["app"] == "reasoning_gym:DATASET"


def test_serve_makes_a_key_says_it_once_and_gives_a_line_to_paste(tmp_path):
    with served("facts") as process:
        match, text = read_until(
            process, r"served at (\S+) until Ctrl-C\n(?:.*\n)*?.*export (\S+)=(\S+)\n(?:.*\n)*?(.*curl.*)\n"
        )
        url, name, key, curl = match.groups()
        assert text.count(key) == 1
        assert httpx.get(f"{url}/task_info?seed=0").status_code == 400
        done = subprocess.run(
            ["bash", "-c", curl.replace("curl", "curl -s")],
            env={**os.environ, name: key},
            capture_output=True,
            text=True,
        )
        assert json.loads(done.stdout)["task"]["id"] == "facts"


def test_serve_takes_the_key_of_the_environment_or_a_file_and_never_shows_it(tmp_path):
    (tmp_path / ".env").write_text("ENVIRONMENT_API_KEY=from-a-file-0123\n")
    with served("facts", "--json", "--env-file", str(tmp_path / ".env")) as process:
        data = json.loads(process.stdout.readline())
        assert data["key"] is None and data["name"] == "facts"
        health = httpx.get(data["url"] + "/health", headers={"X-API-Key": "from-a-file-0123"})
        assert health.json()["healthy"] is True


@pytest.mark.parametrize(
    ("args", "code", "words"),
    [
        (["nope"], 2, "no built-in task app 'nope'"),
        (["nothing.py"], 2, "no file nothing.py"),
        (["facts", "--host", "0.0.0.0"], 2, "refusing to serve on 0.0.0.0 without a key"),
        (["facts", "--env-file", "nothing.env"], 2, "cannot read nothing.env"),
    ],
)
def test_serves_that_fail_say_why(capsys, args, code, words):
    assert main(["taskapp", "serve", *args, "--port", "0"]) == code
    assert words in capsys.readouterr().err


def test_an_app_that_ends_by_itself_is_a_failure(tmp_path, capfd):
    (tmp_path / "short.py").write_text("import os\ndef build_app():\n    os._exit(7)\n")
    assert main(["taskapp", "serve", str(tmp_path / "short.py"), "--port", "0"]) == 3
    assert "ended while it started" in capfd.readouterr().err


def test_scan_finds_task_apps_and_nothing_else(capsys, monkeypatch):
    async def other(scope, receive, send):
        if scope["type"] == "http":
            await send({"type": "http.response.start", "status": 200, "headers": []})
            await send({"type": "http.response.body", "body": b"<html>"})

    monkeypatch.setenv("ENVIRONMENT_API_KEY", "k" * 16)
    monkeypatch.setattr(scan, "TIMEOUT_S", 30.0)  # on a busy machine
    with serving(create_task_app(facts.build_config())) as app, serving(other) as page:
        ports = [int(url.rpartition(":")[2]) for url in (app, page)]
        for port in ports:
            assert main(["scan", "--port-range", f"{port}:{port}", "--json"]) == 0
        first, second = (json.loads(line) for line in capsys.readouterr().out.splitlines())
        assert first["apps"] == [{"url": app, "service": "facts", "health": 400}]
        assert second["apps"] == []
        assert main(["scan", "--port-range", str(ports[0])]) == 0
        assert capsys.readouterr().out == f"{app}  facts  (asks for a key)\n"
    assert main(["scan", "--port-range", "9:8"]) == 2
