"""Real HTTP servers for the tests of task apps: apps in a thread, a stub gateway, broken servers."""

from __future__ import annotations

import asyncio
import contextlib
import socket
import threading
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator
from ssl import SSLContext
from typing import Any

import pytest
import uvicorn
from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import JSONResponse
from starlette.routing import Route

from trainer.taskapp.contracts import Json, rollout_request

KEY = "key-of-the-tests-0123456789"


@contextlib.contextmanager
def serving(app: Any) -> Iterator[str]:
    """Serves an ASGI app on a free loopback port from a thread; yields its URL."""
    listener = socket.socket()
    listener.bind(("127.0.0.1", 0))
    server = uvicorn.Server(uvicorn.Config(app, log_level="critical", timeout_graceful_shutdown=1))
    thread = threading.Thread(target=server.run, kwargs={"sockets": [listener]}, daemon=True)
    thread.start()
    while not server.started and thread.is_alive():
        threading.Event().wait(0.005)
    try:
        yield f"http://127.0.0.1:{listener.getsockname()[1]}"
    finally:
        server.should_exit = True
        thread.join(10)


@contextlib.asynccontextmanager
async def raw_server(
    reply: Callable[[bytes, int], bytes | Awaitable[bytes]], ssl: SSLContext | None = None
) -> AsyncIterator[str]:
    """A server that answers request n (from 0) with the bytes of `reply(request, n)` and closes."""
    seen = 0

    async def handle(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        nonlocal seen
        try:
            request = await reader.readuntil(b"\r\n\r\n")
            for line in request.split(b"\r\n"):
                if line.lower().startswith(b"content-length:"):
                    request += await reader.readexactly(int(line.split(b":")[1]))
            seen += 1
            answer = reply(request, seen - 1)
            writer.write(answer if isinstance(answer, bytes) else await answer)
            await writer.drain()
        except (asyncio.CancelledError, ConnectionError, asyncio.IncompleteReadError):
            pass
        finally:
            writer.close()

    server = await asyncio.start_server(handle, "127.0.0.1", 0, ssl=ssl)
    try:
        scheme = "http" if ssl is None else "https"
        yield f"{scheme}://127.0.0.1:{server.sockets[0].getsockname()[1]}"
    finally:
        server.close()


def http(status: int, body: bytes | str, *headers: str) -> bytes:
    """The bytes of an HTTP answer."""
    content = body.encode() if isinstance(body, str) else body
    lines = [f"HTTP/1.1 {status} X", f"content-length: {len(content)}", "connection: close", *headers, "", ""]
    return "\r\n".join(lines).encode() + content


class StubGateway:
    """An OpenAI-like server whose answers the test scripts; it records what it was asked."""

    def __init__(self) -> None:
        self.url = ""
        self.requests: list[tuple[str, Json]] = []  # (path with query, body)
        self.answer: Callable[[Json], tuple[int, Json]] = lambda body: self.says("?")

    @staticmethod
    def says(text: str, finish_reason: str = "stop") -> tuple[int, Json]:
        message = {"role": "assistant", "content": text}
        return 200, {"choices": [{"message": message, "finish_reason": finish_reason}]}

    async def __call__(self, request: Request) -> JSONResponse:
        body = await request.json()
        self.requests.append((f"{request.url.path}?{request.url.query}", body))
        status, answer = self.answer(body)
        return JSONResponse(answer, status)


@pytest.fixture(scope="session")
def _gateway_server() -> Iterator[StubGateway]:
    stub = StubGateway()

    async def complete(request: Request) -> JSONResponse:
        return await stub(request)

    with serving(Starlette(routes=[Route("/v1/chat/completions", complete, methods=["POST"])])) as url:
        stub.url = url
        yield stub


@pytest.fixture
def gateway(_gateway_server: StubGateway) -> StubGateway:
    _gateway_server.requests = []
    _gateway_server.answer = lambda body: StubGateway.says("?")
    return _gateway_server


@pytest.fixture
def key(monkeypatch: pytest.MonkeyPatch) -> str:
    """The server's key, set in the environment."""
    monkeypatch.delenv("ENVIRONMENT_API_KEY_ALIASES", raising=False)
    monkeypatch.setenv("ENVIRONMENT_API_KEY", KEY)
    return KEY


def request_body(cid: str = "cid-1", seed: int = 0, **changes: Any) -> Json:
    """A rollout request with plain values."""
    values: Json = {
        "cid": cid,
        "inference_url": f"http://127.0.0.1:1/v1/chat/completions?cid={cid}",
        "inference_base_url": f"http://127.0.0.1:1/cid/{cid}/v1",
        "env_name": "facts",
        "policy_name": "policy",
        "seed": seed,
        "max_turns": 6,
        "model": "m",
        "temperature": 1.0,
        "top_p": 1.0,
        "max_tokens": 20,
    }
    return rollout_request(**(values | changes))
