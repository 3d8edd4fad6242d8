"""The client against servers that refuse, fall silent and cut connections."""

from __future__ import annotations

import hashlib
import json

import pytest
from starlette.responses import JSONResponse, PlainTextResponse, RedirectResponse, Response, StreamingResponse
from starlette.routing import Route

from rltui import backend
from rltui.backend import DEFAULT_URL, Backend, BackendError, backend_url, named_token


@pytest.fixture(autouse=True)
def no_waits(monkeypatch):
    monkeypatch.setattr(backend, "WAITS_S", (0.0,))


@pytest.mark.parametrize(
    ("argument", "env", "url"),
    [
        (None, {}, DEFAULT_URL),
        ("http://a:1/", {"BACKEND_BASE_URL": "http://b"}, "http://a:1/api"),
        (" ", {"BACKEND_BASE_URL": "https://b/api/"}, "https://b/api"),
        (None, {"BACKEND_BASE_URL": "http://b", "BACKEND_OVERRIDE": "http://c"}, "http://b/api"),
        (None, {"BACKEND_OVERRIDE": "http://c", "SYNTH_BACKEND_URL_OVERRIDE": "dev"}, "http://c/api"),
        (None, {"SYNTH_BACKEND_URL_OVERRIDE": "Dev", "DEV_BACKEND_URL": "http://d"}, "http://d/api"),
        (None, {"SYNTH_BACKEND_URL_OVERRIDE": "prod"}, DEFAULT_URL),  # there is no hosted default
        (None, {"PROD_BACKEND_URL": "http://e"}, DEFAULT_URL),
    ],
)
def test_the_server_that_is_meant(argument, env, url):
    assert backend_url(argument, env) == url


@pytest.mark.parametrize(
    "url", ["localhost:8787", "ftp://a", "http://", "http://u:secret@a", "http://a/api?key=secret"]
)
def test_what_is_no_address_of_a_server_is_refused_and_a_secret_in_it_not_repeated(url):
    with pytest.raises(ValueError) as error:
        backend_url(url, {})
    assert "secret" not in str(error.value)


def test_the_token_is_named_by_the_environment():
    assert named_token({"SYNTH_API_KEY": "S", "RLTUI_API_KEY": "R"}) == "R"
    assert named_token({"SYNTH_API_KEY": "S", "RLTUI_API_KEY": " "}) == "S"
    assert named_token({}) is None


def test_a_refusal_is_told_in_the_servers_words(serving):
    refusal = {"detail": "no \x1b[31msuch job", "error": {"code": "not_found", "message": "..."}}
    base = serving(
        [
            Route("/api/told", lambda request: JSONResponse(refusal, 404)),
            Route("/api/odd", lambda request: PlainTextResponse("<html>\n bad gateway", 502), methods=["POST"]),
            Route("/api/list", lambda request: JSONResponse([1])),
            Route("/api/elsewhere", lambda request: RedirectResponse("http://127.0.0.1:1/")),
            Route("/api/key", lambda request: JSONResponse({"got": request.headers["authorization"]})),
        ]
    )
    with Backend(base, "T") as server:
        assert server.get("/key") == {"got": "Bearer T"} and server.url == f"{base}/api"
        with pytest.raises(BackendError, match=r"^no such job$") as told:
            server.get("/told")
        assert (told.value.status, told.value.code) == (404, "not_found")
        with pytest.raises(BackendError, match="bad gateway") as odd:
            server.post("/odd")
        assert (odd.value.status, odd.value.code) == (502, None)
        with pytest.raises(BackendError, match="no JSON object"):
            server.get("/list")
        with pytest.raises(BackendError):
            server.get("/elsewhere")  # a redirect is not followed: the token would go with it
        with pytest.raises(BackendError, match="outside"):
            server.get("http://127.0.0.1:1/api")
    with pytest.raises(BackendError, match=r"no answer from .*connection refused") as silent, Backend(base) as server:
        server.url = "http://127.0.0.1:9/api"
        server.get("/told")
    assert silent.value.status is None


def test_events_come_once_and_in_order_over_cut_connections(serving):
    """Three connections: one cut in the middle of an event, one refused with 503, one that repeats what was sent."""
    texts = ["a", "b\u2028b", "c", "d"]  # U+2028 ends a line for str.splitlines, not for an event stream
    connections, asked = iter(["cut", "busy", "whole", "silent"]), []

    def block(seq):
        event = {"type": "rl.phase" if seq < 4 else "rl.job.completed", "seq": seq, "message": texts[seq - 1]}
        return f"id: {seq}\nevent: x\ndata: {json.dumps(event, ensure_ascii=False)}\n\n".encode()

    async def cut():
        yield b'event: rl.heartbeat\ndata: {"type":"rl.heartbeat","seq":0}\n\n' + block(1) + block(2) + block(3)[:30]
        raise ConnectionError

    async def whole():
        yield b": keep-alive\n\n" + block(2) + block(3) + b"data: {broken\n\n"
        yield block(4)

    def stream(request):
        asked.append((request.query_params["since_seq"], request.headers["last-event-id"]))
        match next(connections):
            case "cut":
                return StreamingResponse(cut())
            case "busy":
                return JSONResponse({"detail": "starting"}, 503)
            case "whole":
                return StreamingResponse(whole())
        return Response()

    base = serving(
        [
            Route("/api/rl/jobs/J/events/stream", stream),
            Route("/api/rl/jobs/J", lambda request: JSONResponse({"status": "succeeded", "last_seq": 4})),
            Route("/api/rl/jobs/none/events/stream", lambda request: JSONResponse({"detail": "no such job"}, 404)),
        ]
    )
    with Backend(base) as server:
        assert [event["message"] for event in server.events("/rl/jobs/J/events/stream")] == texts
        assert asked == [("0", "0"), ("2", "2"), ("2", "2")]
        assert list(server.events("/rl/jobs/J/events/stream", 4)) == []
        with pytest.raises(BackendError, match="no such job"):
            list(server.events("/rl/jobs/none/events/stream"))


def test_a_stream_without_an_answer_gives_up_in_the_end(serving, monkeypatch):
    monkeypatch.setattr(backend, "PATIENCE_S", 0.0)
    base = serving([])
    with Backend(base) as server:
        server.url = "http://127.0.0.1:9/api"
        with pytest.raises(BackendError, match="no answer"):
            list(server.events("/rl/jobs/J/events/stream"))


def test_a_download_goes_on_where_it_was_cut_and_is_checked(serving, tmp_path):
    data = bytes(range(256)) * 4000
    ranges = []

    def file(request):
        ranges.append(request.headers.get("range"))
        start = int((request.headers.get("range") or "bytes=0-").removeprefix("bytes=").rstrip("-"))
        if start == len(data):
            return Response(status_code=416, headers={"Content-Range": f"bytes */{len(data)}"})
        end = min(len(data), start + 500_000)

        async def body():
            yield data[start:end]
            if end < len(data):
                raise ConnectionError

        headers = {"Content-Length": str(len(data) - start)}
        if start:
            headers["Content-Range"] = f"bytes {start}-{len(data) - 1}/{len(data)}"
        return StreamingResponse(body(), 206 if start else 200, headers)

    base = serving([Route("/api/file", file)])
    to = tmp_path / "adapter.safetensors"
    with Backend(base) as server:
        server.download("/api/file", to, sha256=hashlib.sha256(data).hexdigest())
        assert to.read_bytes() == data and to.stat().st_mode & 0o777 == 0o600
        assert ranges[0] is None and all(ranges[1:]) and 3 <= len(ranges) <= 4
        (tmp_path / "again.part").write_bytes(data)  # all of it came before, and then the program ended
        server.download(f"{base}/api/file", tmp_path / "again")
        assert (tmp_path / "again").read_bytes() == data
        with pytest.raises(BackendError) as wrong:
            server.download("/file", tmp_path / "other", sha256="0" * 64)
        assert wrong.value.code == "checksum" and not list(tmp_path.glob("other*"))
