"""A task app, a judge or a stranger on a port that answers with more than anybody should take."""

import asyncio
import contextlib
import gzip
import json
import tracemalloc
import zlib
from collections.abc import AsyncIterator

import httpx
import pytest

from rltui.server import verify
from trainer.judge.http import MOST_BYTES, CallFailed, JudgeHttp
from trainer.taskapp import bodies, client, scan
from trainer.taskapp.bodies import MAX_VALUES, PIECE, Echoes, no_cookies, parts
from trainer.taskapp.client import TaskAppClient
from trainer.taskapp.errors import RolloutFailure
from trainer.taskapp.parse import ParsedRollout
from trainer.taskapp.scan import probe

from ..taskapp.conftest import http, raw_server, request_body

GOOD = json.dumps({"trace_correlation_id": "cid-1", "metrics": {"outcome_reward": 0.5}})
KEY = 'a-key/with"signs-0123456789'
WAYS = (  # in which an app may write it
    KEY,
    KEY.replace("/", "\\/").replace('"', '\\"'),
    "".join(f"\\u{ord(char):04x}" for char in KEY),
    "".join(f"\\u{ord(char):04X}" for char in KEY),
    json.dumps(json.dumps(KEY))[3:-3],
)


def packed(count: int) -> bytes:
    """Of `count` MB of zeros, a thousandth."""
    press, block = zlib.compressobj(9, wbits=31), bytes(1 << 20)
    return b"".join(press.compress(block) for _ in range(count)) + press.flush()


async def played(answer: bytes) -> ParsedRollout | RolloutFailure:
    async with (
        raw_server(lambda request, n: answer) as url,
        TaskAppClient(url, api_key=KEY, timeout_s=20.0, max_connections=1) as app,
    ):
        try:
            return await app.rollout(request_body())
        except RolloutFailure as failure:
            return failure


@contextlib.asynccontextmanager
async def dripping(begin: bytes) -> AsyncIterator[str]:
    """A server that answers `begin` and then a byte now and then, for ever."""

    async def drip(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        writer.write(begin)
        with contextlib.suppress(ConnectionError, asyncio.CancelledError):
            while True:
                writer.write(b" ")
                await writer.drain()
                await asyncio.sleep(0.01)

    server = await asyncio.start_server(drip, "127.0.0.1", 0)
    try:
        yield f"http://127.0.0.1:{server.sockets[0].getsockname()[1]}"
    finally:
        server.close()


@pytest.fixture
def small(monkeypatch) -> int:
    """What an answer may have, for a test that is quick."""
    monkeypatch.setattr(bodies, "MAX_BODY_BYTES", 1 << 20)
    return 1 << 20


async def test_a_small_answer_that_inflates_without_end_is_given_up(small):
    bomb = http(200, packed(32), "content-encoding: gzip")
    tracemalloc.start()
    try:
        failure = await played(bomb)
        most = tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()
    assert failure.code == "bad_json" and str(failure).endswith("over 1 MiB") and not failure.retryable
    assert most < 8 * small  # it makes 32 of them, all at once if the library inflates


@pytest.mark.parametrize("coding", ["gzip, gzip", "br", "zstd", "deflate", "x"])
async def test_codings_within_codings_and_those_that_were_not_asked_for_are_not_read(coding):
    """Two layers of gzip make a gigabyte of a kilobyte, in one step of the library."""
    failure = await played(http(200, gzip.compress(gzip.compress(GOOD.encode())), f"content-encoding: {coding}"))
    assert failure.code == "http_error" and "cannot be decoded" in str(failure)


async def test_gzip_is_read_in_pieces_and_what_only_claims_to_be_it_fails():
    result = await played(http(200, gzip.compress(GOOD.encode()), "content-encoding: gzip"))
    assert result.outcome == 0.5
    failure = await played(http(200, GOOD, "content-encoding: gzip"))
    assert failure.code == "http_error"
    response = httpx.Response(200, headers={"content-encoding": "gzip"}, stream=_Once(packed(3)))
    sizes = [len(piece) async for piece in parts(response)]
    assert sum(sizes) == 3 << 20 and max(sizes) <= PIECE


class _Once(httpx.AsyncByteStream):
    def __init__(self, data: bytes) -> None:
        self._data = data

    async def __aiter__(self):
        yield self._data


async def test_more_values_than_an_episode_has_are_not_made_objects():
    many = b'{"metrics": {"outcome_reward": 1}, "trace": {"x": [' + b"[]," * MAX_VALUES + b"[]]}}"
    failure = await played(http(200, many))
    assert failure.code == "bad_json" and str(failure) == "the answer is too large: over 2,000,000 values"
    assert not failure.retryable


async def test_headers_without_end_are_given_up():
    failure = await played(b"HTTP/1.1 200 X\r\n" + b"x-more: 1\r\n" * 100_000)
    assert failure.code == "http_error"


async def test_an_answer_that_drips_ends_with_the_time_of_its_episode(monkeypatch):
    monkeypatch.setattr(client, "ABORT_S", 0.2)
    async with dripping(b"HTTP/1.1 200 X\r\n\r\n") as url:
        async with TaskAppClient(url, api_key=None, timeout_s=0.2, max_connections=1) as app:
            with pytest.raises(RolloutFailure) as caught:
                await asyncio.wait_for(app.rollout(request_body()), 30)
    assert caught.value.code == "timeout"


@pytest.mark.parametrize("written", WAYS)
async def test_a_key_that_is_sent_back_in_any_spelling_reaches_no_record(written):
    result = await played(http(200, GOOD[:-1] + f', "trace": {{"said": "{written}"}}}}'))
    assert result.trace == {"said": "***"}


async def test_a_key_in_an_answer_that_is_too_long_reaches_no_record(small):
    failure = await played(http(500, WAYS[1] + " " * (small + 1)))
    assert failure.code == "http_error" and failure.evidence.startswith("***")


async def test_cookies_are_not_kept():
    asked = []

    def reply(request, n):
        asked.append(request)
        return http(200, GOOD, *(f"set-cookie: c{i}=1" for i in range(50)))

    async with raw_server(reply) as url, TaskAppClient(url, api_key=KEY, max_connections=1) as app:
        for _ in range(2):
            await app.rollout(request_body())
    assert len(asked) == 2 and b"cookie" not in asked[1].lower()
    assert len(no_cookies()) == 0


async def test_a_judges_answer_is_bounded_as_well():
    async with raw_server(lambda request, n: http(200, packed(8), "content-encoding: gzip")) as url:
        judge = JudgeHttp(url, {}, [KEY], 1)
        with pytest.raises(CallFailed) as caught:
            await judge.post({}, 20.0)
        await judge.close()
    assert str(MOST_BYTES) in caught.value.text


async def test_a_stranger_on_a_port_holds_no_scan_up(monkeypatch):
    monkeypatch.setattr(scan, "TIMEOUT_S", 0.1)

    async with dripping(b"HTTP/1.1 200 X\r\n\r\n") as url, httpx.AsyncClient() as asks:
        assert await asyncio.wait_for(probe(asks, url), 30) is None
    whole = json.dumps({"status": "ok", "service": "x" * scan.MAX_BODY_BYTES})
    async with raw_server(lambda request, n: http(200, whole)) as url, httpx.AsyncClient() as asks:
        assert await probe(asks, url) is None


async def test_an_app_that_drips_its_head_holds_no_look_of_the_server_up(monkeypatch):
    monkeypatch.setattr(client, "GATE_TIMEOUT_S", 0.2)

    async with dripping(b"HTTP/1.1 200 X\r\nx: ") as url:
        found = await asyncio.wait_for(verify.attempts_at(url, []), 30)
    assert all(not attempt["ok"] and "no answer" in attempt["error"] for attempt in found)


async def test_an_app_is_looked_at_as_a_run_looks_at_it(monkeypatch):
    monkeypatch.setattr(client, "GATE_WAITS_S", (0.0, 0.0))
    asked = []
    real = TaskAppClient._gate_get

    async def get(app, path):
        asked.append(path)
        return await real(app, path)

    monkeypatch.setattr(TaskAppClient, "_gate_get", get)
    (attempt,) = await verify.attempts_at("http://127.0.0.1:9", [])
    assert asked == ["/health"] * 3 and "no answer" in attempt["error"]

    def reply(request, n):
        path = request.split(b" ")[1].decode()
        return http(200, "{}") if path.endswith("/") else http(307, "", f"Location: {path}/")

    async with raw_server(reply) as url:
        assert all(attempt["ok"] for attempt in await verify.attempts_at(url, []))


@pytest.mark.parametrize("body", [b'a"' * 300_000, b"\\" * 300_000, b"\\u0061" * 50_000])
def test_hostile_bodies_are_searched_in_time_that_grows_with_them(body):
    assert Echoes([KEY, "a" * 40]).hidden(body) is not None
