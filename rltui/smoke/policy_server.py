"""The address that episodes call for their next action: an OpenAI-compatible server in this process.

It records each call (where it arrived, what it asked), asks the policy, and answers as the gateway of a run would.
"""

from __future__ import annotations

import asyncio
import contextlib
import json
import socket
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from typing import Any
from urllib.parse import quote

import uvicorn
from starlette.applications import Starlette
from starlette.requests import ClientDisconnect, Request
from starlette.responses import Response, StreamingResponse
from starlette.routing import Route

from rltui.smoke.control import Control, Stopped
from rltui.smoke.net import EVERYWHERE, address_towards
from rltui.smoke.policies.base import Call, GaveUp, Json, Policy, PolicyFailed, Reply
from rltui.smoke.report import Turn
from trainer.taskapp.codes import clean
from trainer.taskapp.reading import cid_of_url, listing, mapping
from trainer.taskapp.replies import json_response

MAX_BODY_BYTES = 10 * 2**20


@dataclass(slots=True)
class Arrival:
    """One call as it came in. status: what it was answered with."""

    url: str  # path and query
    body: Json
    status: int = 0
    reply: Reply | None = None
    error: str | None = None  # the code of an error answer, and its text
    message: str = ""
    seconds: float = 0.0


@dataclass(slots=True)
class Book:
    """The calls of one episode, in the order of their arrival."""

    cid: str
    seed: int
    member: int
    policy: Policy
    call_limit: int
    told: Callable[[Turn], None]
    asked: Callable[[tuple[Json, ...]], None]  # the new messages of a call that waits
    arrivals: list[Arrival] = field(default_factory=list)
    turns: list[Turn] = field(default_factory=list)
    over: asyncio.Event = field(default_factory=asyncio.Event)  # given up, or stopped
    gave_up: bool = False
    busy: int = 0  # calls that the policy is thinking about


class _Server(uvicorn.Server):
    @contextlib.contextmanager
    def capture_signals(self) -> Iterator[None]:  # they are the caller's
        yield


class PolicyServer:
    """Start it, `open` a book for each episode, send `chat_url(cid)`, `close` the book. strays: calls of no episode;
    stale: of one that has ended."""

    def __init__(
        self, control: Control, host: str = "127.0.0.1", port: int = 0, public_url: str | None = None, app: str = ""
    ) -> None:
        """public_url: where the app reaches it; by default where it listens. app: URL of the app."""
        self._control, self._host, self._port, self._public_url, self._app_url = control, host, port, public_url, app
        self._books: dict[str, Book] = {}
        self._closed: set[str] = set()
        self.strays: list[Arrival] = []
        self.stale: list[Arrival] = []
        self._app = Starlette(routes=[Route("/{path:path}", self._handle, methods=["GET", "HEAD", "POST"])])

    async def start(self) -> None:
        """Returns when it listens. OSError: the port is taken."""
        family = socket.AF_INET6 if ":" in self._host else socket.AF_INET
        listener = socket.socket(family, socket.SOCK_STREAM, socket.IPPROTO_TCP)
        listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            listener.bind((self._host, self._port))
        except OSError:
            listener.close()
            raise
        self._port = listener.getsockname()[1]
        config = uvicorn.Config(
            self._app,
            log_config=None,
            log_level="critical",
            access_log=False,
            lifespan="off",
            timeout_graceful_shutdown=1,
        )
        self._server = _Server(config)
        self._serving = asyncio.create_task(self._server.serve(sockets=[listener]))
        while not self._server.started and not self._serving.done():  # noqa: ASYNC110 - nothing tells us
            await asyncio.sleep(0.005)

    async def stop(self) -> None:
        for book in self._books.values():
            book.over.set()
        if hasattr(self, "_server"):
            self._server.should_exit = True
            await asyncio.wait([self._serving])

    @property
    def public_url(self) -> str:
        if self._public_url is not None:
            return self._public_url.rstrip("/")
        host = (address_towards(self._app_url) or "127.0.0.1") if self._host in EVERYWHERE else self._host
        return f"http://{f'[{host}]' if ':' in host else host}:{self._port}"

    def chat_url(self, cid: str) -> str:
        return f"{self.public_url}/v1/chat/completions?cid={quote(cid, safe='')}"

    def base_url(self, cid: str) -> str:
        return f"{self.public_url}/cid/{quote(cid, safe='')}/v1"

    def open(self, book: Book) -> None:
        self._books[book.cid] = book

    def close(self, cid: str) -> None:
        self._closed.add(cid)
        self._books.pop(cid, None)

    async def _handle(self, request: Request) -> Response:
        path = request.url.path
        if request.method != "POST":
            if path.rstrip("/").endswith("/models"):
                return json_response({"object": "list", "data": [{"id": "policy", "object": "model"}]})
            return json_response({"status": "ok"}) if path == "/health" else _error(404, "not_found", "no such path")
        arrival = Arrival(f"{path}?{request.url.query}" if request.url.query else path, {})
        try:
            content = await request.body()
        except ClientDisconnect:
            return _error(499, "client_left", "the client left")
        if len(content) > MAX_BODY_BYTES:
            return self._refused(arrival, 413, "request_too_large", "the body is over 10 MB")
        with contextlib.suppress(ValueError, RecursionError):
            arrival.body = mapping(json.loads(content))
        cid = cid_of_url(str(request.url))
        book = self._books.get(cid or "")
        if book is None:
            # a late call of an episode that was given up is no mistake of its address
            (self.stale if cid in self._closed else self.strays).append(arrival)
            if cid is None:
                words = "the URL has no ?cid=: call policy.config.inference_url as it stands"
                return self._refused(arrival, 400, "cid_missing", words)
            return self._refused(arrival, 404, "unknown_cid", "no episode has this cid, or it has ended")
        book.arrivals.append(arrival)
        began = time.monotonic()
        response = await self._answer(book, arrival, path)
        arrival.seconds = time.monotonic() - began if not arrival.seconds else arrival.seconds
        return response

    async def _answer(self, book: Book, arrival: Arrival, path: str) -> Response:
        body = arrival.body
        plain = path.endswith("/completions") and not path.endswith("/chat/completions") and "prompt" in body
        messages = [{"role": "user", "content": body["prompt"]}] if plain else body.get("messages")
        if not isinstance(messages, list) or not messages or not all(isinstance(m, dict) for m in messages):
            return self._refused(arrival, 400, "bad_request", "messages must be a list of messages", book)
        if body.get("n") not in (None, 1):
            return self._refused(arrival, 400, "bad_request", "n must be 1", book)
        if len(book.arrivals) > book.call_limit:
            return self._refused(arrival, 429, "call_limit", f"over {book.call_limit} calls in one episode", book)
        tools = listing(body.get("tools")) or [
            {"type": "function", "function": function} for function in listing(body.get("functions"))
        ]
        call = Call(book.cid, len(book.turns), book.seed, book.member, messages, tools, body)
        began = time.monotonic()
        book.asked(_new(messages, book))
        try:
            await self._control.turn()
            began = time.monotonic()
            book.busy += 1
            try:
                reply = await book.policy.reply(call)
            finally:
                book.busy -= 1
        except PolicyFailed as error:
            return self._refused(arrival, error.status, error.code, str(error), book, messages, began)
        except (GaveUp, Stopped) as error:
            book.gave_up = isinstance(error, GaveUp)
            book.over.set()
            return self._refused(arrival, 503, "stopped", "the episode was ended", book, messages, began)
        arrival.status, arrival.reply, arrival.seconds = 200, reply, time.monotonic() - began
        tail = _new(messages, book)
        tokens, prompt = reply.completion_tokens, reply.prompt_tokens
        turn = Turn(tail, reply.text, reply.tool_calls, arrival.seconds, tokens=tokens, prompt_tokens=prompt)
        self._note(book, turn)
        answer = completion(reply, call, str(body.get("model") or "policy"), legacy="functions" in body)
        if plain:
            return json_response(_as_text(answer))
        if body.get("stream") is True:
            usage = mapping(body.get("stream_options")).get("include_usage") is True
            return StreamingResponse(_events(answer, usage), media_type="text/event-stream")
        return json_response(answer)

    def _refused(
        self,
        arrival: Arrival,
        status: int,
        code: str,
        message: str,
        book: Book | None = None,
        messages: list[Json] | None = None,
        began: float | None = None,
    ) -> Response:
        arrival.status, arrival.error, arrival.message = status, code, message
        if book is not None:
            seconds = 0.0 if began is None else time.monotonic() - began
            self._note(book, Turn(_new(messages or [], book), "", (), seconds, error=f"{status} {clean(message)}"))
        return _error(status, code, message)

    def _note(self, book: Book, turn: Turn) -> None:
        """A turn of an episode that goes on."""
        if book.cid in self._books:
            book.turns.append(turn)
            book.told(turn)


def _new(messages: list[Json], book: Book) -> tuple[Json, ...]:
    """What the policy had not seen before: all, if the app did not go on from the last call's messages."""
    before = listing(book.arrivals[-2].body.get("messages")) if len(book.arrivals) > 1 else []
    return tuple(messages[len(before) :] if messages[: len(before)] == before else messages)


def completion(reply: Reply, call: Call, model: str, *, legacy: bool = False) -> Json:
    """The reply as OpenAI writes it."""
    message = reply.message
    if message is None:
        message = {"role": "assistant", "content": reply.text if reply.text or not reply.tool_calls else None}
        if reply.tool_calls and legacy:
            message["function_call"] = reply.tool_calls[0]["function"]
        elif reply.tool_calls:
            message["tool_calls"] = list(reply.tool_calls)
    reason = reply.finish_reason or (("function_call" if legacy else "tool_calls") if reply.tool_calls else "stop")
    prompt, sampled = reply.prompt_tokens or 0, reply.completion_tokens or 0
    return {
        "id": f"chatcmpl-{call.cid}-{call.number}",
        "object": "chat.completion",
        "created": int(time.time()),
        "model": model,
        "choices": [{"index": 0, "message": message, "finish_reason": reason, "logprobs": None}],
        "usage": {"prompt_tokens": prompt, "completion_tokens": sampled, "total_tokens": prompt + sampled},
        "rltui": {"cid": call.cid, "call": call.number},
    }


def _events(answer: Json, usage: bool) -> Iterator[str]:
    """The answer as a stream of one delta."""
    choice = answer["choices"][0]
    delta: dict[str, Any] = dict(choice["message"])
    if "tool_calls" in delta:
        delta["tool_calls"] = [{"index": i, **call} for i, call in enumerate(delta["tool_calls"])]
    head = {**{k: answer[k] for k in ("id", "created", "model")}, "object": "chat.completion.chunk"}
    yield _event({**head, "choices": [{"index": 0, "delta": delta, "finish_reason": None}]})
    yield _event({**head, "choices": [{"index": 0, "delta": {}, "finish_reason": choice["finish_reason"]}]})
    if usage:
        yield _event({**head, "choices": [], "usage": answer["usage"]})
    yield "data: [DONE]\n\n"


def _event(chunk: Json) -> str:
    return f"data: {json.dumps(chunk)}\n\n"


def _as_text(answer: Json) -> Json:
    choice = answer["choices"][0]
    text = {"index": 0, "text": choice["message"].get("content") or "", "finish_reason": choice["finish_reason"]}
    return {**answer, "object": "text_completion", "choices": [text]}


def _error(status: int, code: str, message: str) -> Response:
    kind = "invalid_request_error" if status < 500 else "server_error"
    body = {"error": {"message": message, "type": kind, "param": None, "code": code}}
    return json_response(body, status, {"x-should-retry": "false"})
