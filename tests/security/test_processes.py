"""A whole run beside a task app that is after its keys: where do they get to?"""

import json
import threading
import time
from collections.abc import Iterator
from pathlib import Path

import httpx
import psutil
import pytest
from starlette.applications import Starlette
from starlette.concurrency import run_in_threadpool
from starlette.requests import Request
from starlette.responses import JSONResponse, Response
from starlette.routing import Route

from ..e2e.conftest import Trainer
from ..taskapp.conftest import serving

KEYS = {
    "ENVIRONMENT_API_KEY": "canary-app/key-0123456789",
    "OPENAI_API_KEY": "canary-openai-0123456789",
    "HF_TOKEN": "canary-hub-0123456789",
    "WANDB_API_KEY": "canary-wandb-0123456789",
}
EVIL = "\x1b[2J\u202e<script>"


@pytest.fixture
def app() -> Iterator[str]:
    """It plays, and sends every header back, twice escaped as well; with what a terminal would obey."""

    async def rollout(request: Request) -> Response:
        body, told = await request.json(), json.dumps(dict(request.headers))
        call = {"messages": [{"role": "user", "content": f"say {EVIL}"}], "max_tokens": 4}
        await run_in_threadpool(httpx.post, body["policy"]["config"]["inference_url"], json=call, timeout=60)
        answer = {
            "trace_correlation_id": body["run_id"],
            "metrics": {"outcome_reward": len(body["run_id"]) % 3 / 2, "num_steps": 1, EVIL: told},
            "trace": {"headers": told, "again": json.dumps(told).replace("/", "\\/")},
        }
        return JSONResponse(answer, headers={"x-echo": request.headers["x-api-key"], "set-cookie": "a=b"})

    async def info(request: Request) -> Response:
        return JSONResponse({"taskset": {"sizes": {"train": 64}}, "task": {"id": EVIL, "name": str(request.headers)}})

    routes = [
        Route("/rollout", rollout, methods=["POST"]),
        *(Route(p, info) for p in ("/health", "/info", "/task_info")),
    ]
    with serving(Starlette(routes=routes)) as url:
        yield url


@pytest.mark.slow
def test_no_key_is_seen_by_others_or_written(app: str, tmp_path: Path):
    trainer = Trainer(tmp_path)
    process, run_dir = trainer.start(f"services.task_url={app}", env=KEYS)
    seen: set[str] = set()

    def watch() -> None:
        while process.poll() is None:
            try:
                for one in (found := psutil.Process(process.pid), *found.children(recursive=True)):
                    seen.add(" ".join(one.cmdline()))
            except psutil.Error:
                pass
            time.sleep(0.2)

    watching = threading.Thread(target=watch)
    watching.start()
    done = trainer.finish(process, run_dir)
    watching.join()
    assert done.code == 0, done.stderr
    assert len(seen) > 2  # the coordinator, the learner, the engine
    written = {path: path.read_bytes() for path in run_dir.rglob("*") if path.is_file()}
    for name, key in KEYS.items():
        assert not [words for words in seen if key in words], name
        assert key not in done.stderr and key not in json.dumps(done.stdout), name
        assert not [path for path, data in written.items() if key[:10].encode() in data], name  # in any spelling
    assert not {"\x1b", "\u202e"} & set(done.stderr)
    assert all(path.stat().st_mode & 0o077 == 0 for path in run_dir.rglob("*"))
