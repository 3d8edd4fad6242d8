"""Clients that begin a request and do not go on with it are cut off; who is being answered is not."""

import asyncio
import contextlib
import socket

import pytest
import uvicorn
from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import PlainTextResponse, StreamingResponse
from starlette.routing import Route
from uvicorn.protocols.http.h11_impl import H11Protocol
from uvicorn.protocols.http.httptools_impl import HttpToolsProtocol

from trainer.taskapp import slow

SHORT_S = 0.2
PATIENT_S = 1.5  # where an answer is wanted: server and client stand still together, and then both are late
HEAD = b"%s / HTTP/1.1\r\nHost: x\r\n"


async def take(request: Request) -> PlainTextResponse:
    return PlainTextResponse(str(len(await request.body())))


async def stream(request: Request) -> StreamingResponse:
    async def blocks():
        for _ in range(4):
            yield b"x"
            await asyncio.sleep(PATIENT_S / 3)

    return StreamingResponse(blocks())


@contextlib.asynccontextmanager
async def serving():
    app = Starlette(routes=[Route("/", stream), Route("/", take, methods=["POST"])])
    server = uvicorn.Server(uvicorn.Config(app, http=slow.Timely, log_config=None, timeout_graceful_shutdown=1))
    listening = socket.create_server(("127.0.0.1", 0))
    task = asyncio.create_task(server.serve([listening]))
    try:
        yield listening.getsockname()[1]
    finally:
        server.should_exit = True
        await task
        listening.close()


@pytest.fixture(autouse=True)
def short(monkeypatch):
    monkeypatch.setattr(slow, "HEAD_S", SHORT_S)
    monkeypatch.setattr(slow, "PART_S", SHORT_S)


@pytest.fixture
def patient(monkeypatch, short):
    monkeypatch.setattr(slow, "HEAD_S", PATIENT_S)
    monkeypatch.setattr(slow, "PART_S", PATIENT_S)


async def told(port, *parts, pause_s=0.0):
    """All that is answered until the server ends the connection."""
    reader, writer = await asyncio.open_connection("127.0.0.1", port)
    try:
        for part in parts:
            writer.write(part)
            await asyncio.sleep(pause_s)
        async with asyncio.timeout(60):
            return await reader.read()
    except ConnectionError:
        return b""
    finally:
        writer.close()


@pytest.mark.parametrize(
    "parts",
    [
        (),
        (b"GET /api/health HT",),
        (HEAD % b"POST" + b"Content-Length: 1000\r\n\r\nabc",),
        (HEAD % b"POST" + b"Transfer-Encoding: chunked\r\n\r\n3\r\nabc\r\n",),
    ],
    ids=["nothing", "half a head", "half a body", "half of its chunks"],
)
async def test_what_does_not_go_on_is_cut_off(parts):
    async with serving() as port:
        assert b"200 OK" not in await told(port, *parts)


async def test_a_head_that_trickles_is_cut_off():
    async with serving() as port:
        trickle = [bytes([byte]) for byte in HEAD % b"GET"]
        assert await told(port, *trickle, pause_s=SHORT_S / 4) == b""


async def test_a_body_that_trickles_is_taken(patient):
    async with serving() as port:
        body = [HEAD % b"POST" + b"Connection: close\r\nContent-Length: 8\r\n\r\n", *([b"a"] * 8)]
        assert (await told(port, *body, pause_s=PATIENT_S / 6)).endswith(b"8")


async def test_an_answer_takes_as_long_as_it_takes(patient):
    async with serving() as port:
        found = await told(port, HEAD % b"GET" + b"Connection: close\r\n\r\n")
        assert found.count(b"1\r\nx\r\n") == 4 and found.endswith(b"0\r\n\r\n")


async def test_the_second_request_of_a_connection_has_the_same_time(patient):
    async with serving() as port:
        whole = HEAD % b"POST" + b"Content-Length: 1\r\n\r\na"
        found = await told(port, whole, b"GET / HT", pause_s=SHORT_S / 4)
        assert found.count(b"200 OK") == 1


def test_both_of_uvicorns_protocols_have_what_it_looks_at():
    for kind in (H11Protocol, HttpToolsProtocol):
        made = kind(uvicorn.Config(None), uvicorn.server.ServerState(), {}, asyncio.new_event_loop())
        assert made.cycle is None and made.flow is None
