"""The interface in a browser: a real server, real pages, and requests that a browser would send for somebody else."""

from __future__ import annotations

import asyncio
import os
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.tui.app_driver import run_in
from tests.waiting import free_port

aiohttp = pytest.importorskip("aiohttp")
pytest.importorskip("textual_serve")


@pytest.fixture(scope="module")
def page(tmp_path_factory) -> Iterator[str]:
    """The address of the page, on the runs of a folder."""
    port = free_port()
    folder = tmp_path_factory.mktemp("runs")
    run_in(folder, "alpha")
    command = [sys.executable, "-P", "-m", "rltui", "--web", "--port", str(port), "--runs-dir", str(folder)]
    root = str(Path(__file__).parents[2])
    server = subprocess.Popen(command, stderr=subprocess.PIPE, env={**os.environ, "PYTHONPATH": root}, cwd=folder)
    assert server.stderr is not None
    told = server.stderr.readline().decode()
    assert f"http://127.0.0.1:{port}/?key=" in told
    yield told.split()[1]
    server.terminate()
    server.wait(60)


def browser() -> aiohttp.ClientSession:
    return aiohttp.ClientSession(cookie_jar=aiohttp.CookieJar(unsafe=True))  # cookies of addresses in digits, too


async def fetch(session: aiohttp.ClientSession, url: str) -> tuple[int, str, str]:
    """Status, text and policy, once somebody listens there."""
    deadline = time.monotonic() + 60
    while True:
        try:
            async with session.get(url) as answer:
                return answer.status, await answer.text(), answer.headers["Content-Security-Policy"]
        except aiohttp.ClientConnectorError:
            assert time.monotonic() < deadline
            await asyncio.sleep(0.1)


async def test_a_page_shows_the_runs_and_takes_keys(page):
    async with browser() as session:
        status, text, policy = await fetch(session, page)
        assert status == 200 and "rltui" in text and "font-src 'self'" in policy and "key=" not in text
        assert "googleapis" not in text
        await _see_and_leave(session, f"{page.partition('?')[0]}ws?width=100&height=30")


async def _see_and_leave(session: aiohttp.ClientSession, address: str) -> None:
    async with session.ws_connect(address) as socket:
        seen = b""
        async for message in socket:
            seen += message.data if isinstance(message.data, bytes) else b""
            if b"alpha" in seen:
                break
        await socket.send_json(["stdin", "q"])
        async for _ in socket:  # it leaves, and the page is told
            pass


@pytest.mark.parametrize("headers", [{"Origin": "http://evil.example"}, {"Host": "evil.example"}, {"Origin": "null"}])
async def test_a_page_of_somebody_else_gets_nothing(page, headers):
    async with browser() as session:
        assert (await fetch(session, page))[0] == 200
        for path in ("", "ws"):
            async with session.get(f"{page.partition('?')[0]}{path}", headers=headers) as answer:
                assert answer.status == 403


async def test_another_account_of_the_machine_gets_nothing(page):
    home = page.partition("?")[0]
    async with browser() as session:
        await fetch(session, home)  # once it listens
        for path in ("", "ws", "?key=", "?key=wrong", "static/js/textual.js"):
            async with session.get(f"{home}{path}") as answer:
                assert answer.status == 403 and "holds the key" in await answer.text()
