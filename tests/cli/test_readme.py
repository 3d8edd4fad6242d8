"""What README.md shows is true: its task app loads and scores, its commands exist."""

import json
import re
import shlex
import threading
from http.server import BaseHTTPRequestHandler, HTTPServer

import httpx
import pytest

from rltui.cli.main import VERBS, main
from rltui.cli.output import OK
from rltui.samples import samples
from tests.cli.conftest import ROOT
from trainer.config import load
from trainer.taskapp.load import load_task_app

README = (ROOT / "README.md").read_text(encoding="utf-8")


@pytest.fixture
def policy():
    """An OpenAI-compatible endpoint that shouts the last word but three."""

    class Shout(BaseHTTPRequestHandler):
        def do_POST(self):
            body = json.loads(self.rfile.read(int(self.headers["content-length"])))
            word = body["messages"][-1]["content"].split()[3]
            content = json.dumps({"choices": [{"message": {"content": word.upper()}}]}).encode()
            self.send_response(200)
            self.send_header("content-length", str(len(content)))
            self.end_headers()
            self.wfile.write(content)

        def log_message(self, *args):
            pass

    server = HTTPServer(("127.0.0.1", 0), Shout)
    threading.Thread(target=server.serve_forever, daemon=True).start()
    yield f"http://127.0.0.1:{server.server_port}/v1/chat/completions?cid=c"
    server.shutdown()
    server.server_close()


async def test_the_task_app_of_the_readme_plays_an_episode(tmp_path, monkeypatch, policy):
    monkeypatch.setenv("ENVIRONMENT_API_KEY", "secret")
    code, *_ = re.findall(r"```python\n(.*?)```", README, re.DOTALL)
    (tmp_path / "capitals.py").write_text(code)
    name, app = load_task_app(str(tmp_path / "capitals.py"))
    assert name == "capitals"
    body = {
        "run_id": "c",
        "env": {"seed": 1},
        "policy": {"config": {"inference_url": policy, "max_tokens": 8}},
    }
    transport = httpx.ASGITransport(app)
    async with httpx.AsyncClient(transport=transport, base_url="http://app") as client:
        answer = await client.post("/rollout", json=body, headers={"X-API-Key": "secret"})
        infos = await client.get("/task_info?seed=1", headers={"X-API-Key": "secret"})
    assert answer.status_code == 200, answer.text
    assert answer.json()["metrics"]["outcome_reward"] == 1.0
    assert "river" in infos.json()["task_metadata"]["prompt"]


def test_every_verb_and_target_that_is_shown_exists():
    shown = set(re.findall(r"^rltui (\w+)", README, re.MULTILINE))
    assert shown <= set(VERBS)
    assert {"train", "runs", "show", "stop"} <= shown
    targets = set(re.findall(r"`?make ([a-z-]+)", README))
    makefile = (ROOT / "Makefile").read_text()
    assert targets
    assert all(re.search(rf"^{target}:", makefile, re.MULTILINE) for target in targets)


def test_every_sample_config_is_named():
    shown = README[README.index("## The config") : README.index("## A task app")]
    assert [name for name in samples() if f"`{name}`" not in shown] == []


def test_the_config_of_the_task_app_is_made_as_shown(tmp_path, monkeypatch, capsys):
    (command,) = re.findall(r"^rltui (config new demo --out capitals(?:.*\\\n)*.*)$", README, re.MULTILINE)
    arguments = shlex.split(command.replace("\\\n", " "))
    monkeypatch.chdir(tmp_path)
    assert main(arguments) == OK
    loaded = load(tmp_path / "capitals.toml", environ={})
    assert loaded.config.services.task_url == "capitals.py"
    assert loaded.config.evaluation is not None and loaded.config.evaluation.seeds == [8, 9, 10, 11]
    assert loaded.config.data.seed_count == loaded.derived["groups"]
