"""Answers of a vLLM server that are no answers: garbage, and bodies that come in pieces or never end."""

from __future__ import annotations

import asyncio
from contextlib import asynccontextmanager, suppress

import pytest

from trainer.inference.engine import EngineError
from trainer.inference.vllm import calls, http
from trainer.inference.vllm.http import Refused, VllmClient


@asynccontextmanager
async def answered_by(*pieces: bytes, status: int = 200, ends: bool = True):
    """A client, and the connections that it made, to what answers each request with a chunked body. `ends` is False:
    the last piece comes again and again."""
    connections = []

    async def answer(reader, writer):
        connections.append(writer)
        with suppress(asyncio.IncompleteReadError, ConnectionError):
            while await reader.readuntil(b"\r\n\r\n"):
                writer.write(b"HTTP/1.1 %d X\r\ntransfer-encoding: chunked\r\n\r\n" % status)
                for piece in pieces:
                    writer.write(b"%x\r\n%s\r\n" % (len(piece), piece))
                    await writer.drain()
                    await asyncio.sleep(0)
                while not ends:
                    writer.write(b"%x\r\n%s\r\n" % (len(pieces[-1]), pieces[-1]))
                    await writer.drain()
                writer.write(b"0\r\n\r\n")

    async with await asyncio.start_server(answer, "127.0.0.1", 0) as server:
        client = VllmClient(f"http://127.0.0.1:{server.sockets[0].getsockname()[1]}")
        yield client, connections
        await client.close()
        for connection in connections:
            connection.close()


async def ask(client: VllmClient, *, streams: bool, **options) -> object:
    async with asyncio.timeout(20):
        if streams:
            return [choice async for choice in client.stream("/any", {})]
        return await client.call("GET", "/any", **options)


@pytest.mark.parametrize(
    "event",
    [
        b"garbage",
        b"[1]",
        b"7",
        b'{"choices": 7}',
        b'{"choices": [7]}',
        b'{"choices": [{"index": "\xff"}]}',
    ],
)
async def test_what_is_no_event_is_told(event):
    async with answered_by(b"data: " + event + b"\n\n") as (client, _):
        with pytest.raises(EngineError, match="no event of a completion in /any: ") as told:
            await ask(client, streams=True)
    assert event[:3].decode() in str(told.value)


@pytest.mark.parametrize("error", [b'{"code": "abc", "message": "boo"}', b'{"message": "boo"}', b'"boo"'])
async def test_an_error_in_a_stream_is_told_whatever_its_code(error):
    async with answered_by(b'data: {"error": ' + error + b"}\n\n") as (client, _):
        with pytest.raises(EngineError, match="500 to /any: boo"):
            await ask(client, streams=True)


@pytest.mark.parametrize("streams", [False, True], ids=["control", "stream"])
async def test_a_fault_that_comes_in_pieces_is_told_whole_and_its_connection_left(streams):
    async with answered_by(b'{"error": {', b'"message": "CUDA out of memory', b', lower it"}}', status=500) as (
        client,
        connections,
    ):
        for number in (1, 2):
            with pytest.raises(EngineError, match="500 to /any: CUDA out of memory, lower it"):
                await ask(client, streams=streams)
            assert len(connections) == number


@pytest.mark.parametrize("streams", [False, True], ids=["control", "stream"])
@pytest.mark.parametrize("status", [400, 500])
async def test_a_fault_without_end_is_told_by_its_beginning(status, streams):
    async with answered_by(b"x" * 5000, status=status, ends=False) as (client, _):
        with pytest.raises(EngineError, match=f"{status} to /any: xxx") as told:
            await ask(client, streams=streams)
        assert isinstance(told.value, Refused) == (status == 400)


@pytest.mark.parametrize("streams", [False, True], ids=["control", "stream"])
async def test_a_fault_whose_text_never_comes_is_told_without(streams, monkeypatch):
    monkeypatch.setattr(http, "FAULT_S", 0.05)

    async def silent(reader, writer):
        await reader.readuntil(b"\r\n\r\n")
        writer.write(b"HTTP/1.1 500 X\r\ncontent-length: 9\r\n\r\n")
        await reader.read()

    async with await asyncio.start_server(silent, "127.0.0.1", 0) as server:
        client = VllmClient(f"http://127.0.0.1:{server.sockets[0].getsockname()[1]}")
        with pytest.raises(EngineError, match="500 to /any: no text"):
            await ask(client, streams=streams)
        await client.close()


async def test_an_answer_without_end_is_given_up_by_its_size_or_its_time(monkeypatch):
    monkeypatch.setattr(http, "MAX_ANSWER", 1 << 20)
    async with answered_by(b"x" * 5000, ends=False) as (client, _):
        with pytest.raises(EngineError, match="answer to /any is longer than 1 MB"):
            await ask(client, streams=False)
        assert not await client.healthy()
        with pytest.raises(EngineError, match="event of more than 1 MB in /any"):
            await ask(client, streams=True)
    monkeypatch.setattr(http, "MAX_ANSWER", 1 << 40)
    async with answered_by(b"x", ends=False) as (client, _):
        with pytest.raises(EngineError, match=r"did not answer /any within 0\.1 s"):
            await ask(client, streams=False, timeout_s=0.1)
        assert not await client.healthy(0.1)


@pytest.mark.parametrize(
    "content",
    [{"logprob": "x"}, {}, 7, {"logprob": -0.5, "top_logprobs": [{"token_id": "a", "logprob": -1.0}]}],
    ids=str,
)
def test_tokens_that_cannot_be_read_are_told(content):
    choice = {"token_ids": [65], "logprobs": {"content": [content]}}
    with pytest.raises(EngineError, match="tokens that cannot be read"):
        calls.chunk_of(calls.TOKENS, choice, 0, top=True)
