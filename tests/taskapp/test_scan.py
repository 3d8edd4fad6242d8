import json

import httpx
import pytest

from trainer.taskapp.scan import Found, probe

from .conftest import http, raw_server

ROOT = json.dumps({"status": "ok", "service": "mine\x1b[2J"})


@pytest.mark.parametrize("status", [200, 400, 401, 403])
async def test_an_app_that_asks_for_a_key_is_up(status):
    async with raw_server(lambda request, n: http(200, ROOT) if n == 0 else http(status, "")) as url:
        async with httpx.AsyncClient() as client:
            found = await probe(client, url)
    assert found == Found(url, "mine [2J", status) and found.needs_key == (status != 200)


@pytest.mark.parametrize(
    ("root", "health"),
    [
        (ROOT, 404),
        (ROOT, 503),
        ("{}", 200),
        ("[]", 200),
        ('{"status": "ok"}', 200),
        ("<html>", 200),
        ("[" * 90_000, 200),
    ],
)
async def test_whatever_else_listens_is_no_task_app(root, health):
    async with raw_server(lambda request, n: http(200, root) if n == 0 else http(health, "")) as url:
        async with httpx.AsyncClient() as client:
            assert await probe(client, url) is None
