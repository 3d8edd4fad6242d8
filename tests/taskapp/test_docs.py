"""What docs/task_apps.md shows is true: the app in it is served, plays and scores; its commands and keys exist."""

import re
from pathlib import Path

import pytest

from rltui.cli.main import VERBS
from trainer.config import load
from trainer.taskapp.client import TaskAppClient
from trainer.taskapp.load import load_task_app

from .conftest import KEY, request_body, serving

ROOT = Path(__file__).parents[2]
TEXT = (ROOT / "docs/task_apps.md").read_text(encoding="utf-8")


@pytest.fixture
def path(tmp_path):
    (code,) = re.findall(r"```python\n(.*?)```", TEXT, re.DOTALL)
    assert sum(bool(line.strip()) for line in code.splitlines()) <= 30
    path = tmp_path / "sums.py"
    path.write_text(code)
    return path


async def test_the_first_app_plays_and_scores(key, gateway, path):
    _, app = load_task_app(str(path))
    gateway.answer = lambda body: gateway.says(str(eval(body["messages"][0]["content"].partition("=")[0])))
    with serving(app) as url:
        async with TaskAppClient(url, api_key=KEY) as client:
            assert (await client.health_gate()).sizes == {"train": 9000, "test": 1000}
            prompts = [info.task_metadata["prompt"] for info in await client.task_info(range(15))]
            assert len(set(prompts)) > 10
            body = request_body("c", 3, inference_url=f"{gateway.url}/v1/chat/completions?cid=c")
            right = await client.rollout(body)
            gateway.answer = lambda body: gateway.says("no idea")
            wrong = await client.rollout(body)
    assert (right.outcome, wrong.outcome) == (1.0, 0.0) and right.warnings == []
    assert gateway.requests[0][1]["messages"][0]["content"] == prompts[3]


def test_every_verb_and_key_that_it_names_exists(monkeypatch, path):
    assert set(re.findall(r"rltui (\w+)", TEXT)) <= set(VERBS)
    monkeypatch.chdir(ROOT)
    pairs = re.findall(r'`((?:services|inference)\.\w+) = ("[^"]+")`', TEXT)
    assert len(pairs) == 5
    for name, value in [*pairs, ("services.task_url", f'"{path}"')]:
        load("sample_configs/demo.toml", sets=[f"{name}={value}"], environ={})
