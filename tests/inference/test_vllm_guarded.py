"""No call of vLLM's server on another node goes through without the run token."""

from __future__ import annotations

import httpx
import pytest

from trainer.frames import TOKEN
from trainer.inference.vllm.guarded import Guarded
from trainer.inference.vllm.options import GUARD


@pytest.mark.parametrize(
    ("headers", "status"),
    [
        ({"Authorization": "Bearer right"}, 200),
        ({"Authorization": "Bearer wrong"}, 401),
        ({"Authorization": "right"}, 401),
        ({}, 401),
    ],
)
@pytest.mark.parametrize("path", ["/pause?mode=keep", "/health", "/v1/completions"])
async def test_every_path_wants_the_token(monkeypatch, headers, status, path):
    monkeypatch.setenv(TOKEN, "right")
    asked = []

    async def app(scope, receive, send):
        asked.append(scope["path"])
        await send({"type": "http.response.start", "status": 200, "headers": []})
        await send({"type": "http.response.body", "body": b""})

    transport = httpx.ASGITransport(app=Guarded(app))
    async with httpx.AsyncClient(transport=transport, base_url="http://node") as client:
        assert (await client.post(path, headers=headers)).status_code == status
    assert len(asked) == (status == 200)


def test_the_server_is_told_where_the_guard_is():
    module, _, name = GUARD.rpartition(".")
    assert (module, name) == (Guarded.__module__, Guarded.__name__)
