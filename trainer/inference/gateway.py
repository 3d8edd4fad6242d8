"""The OpenAI-compatible endpoint of every episode (WIRE 2): render, join, generate, derender, record, answer."""

from __future__ import annotations

import asyncio
import contextlib
import errno
import socket
import time
from collections.abc import AsyncIterator, Iterator
from dataclasses import replace
from typing import Any

import msgspec
import uvicorn
from starlette.applications import Starlette
from starlette.requests import ClientDisconnect, Request
from starlette.responses import Response, StreamingResponse
from starlette.routing import Route

from trainer.inference import openai
from trainer.inference.addresses import Address, base_url, chat_url, parse_address
from trainer.inference.chat import TemplateError
from trainer.inference.engine import Engine, EngineError, Sampling
from trainer.inference.joining import extended_call, joined_prompt, prefix_kind
from trainer.inference.ledger import Episode, Ledger
from trainer.inference.live_call import LiveCall, new_call
from trainer.inference.sampling import BadRequest, call_sampling
from trainer.inference.stopping import cut_at_stop, safe_length

Json = dict[str, Any]

MAX_BODY = 10 * 1024 * 1024
CLIENT_LEFT = 499  # never sent: nobody is there to read it


class GatewayError(RuntimeError):
    """The gateway cannot serve. The text names the key to change."""


class _Refused(Exception):
    """Ends a call with an OpenAI error body."""

    def __init__(self, status: int, code: str, message: str, param: str | None = None) -> None:
        super().__init__(message)
        self.status, self.code, self.param = status, code, param

    def response(self) -> Response:
        kind = "invalid_request_error" if self.status < 500 else "server_error"
        return _json(openai.error_body(str(self), kind, self.param, self.code), self.status)


class _Server(uvicorn.Server):
    """Runs inside the coordinator's loop, whose signals are not uvicorn's to take."""

    @contextlib.contextmanager
    def capture_signals(self) -> Iterator[None]:
        yield


class Gateway:
    """Serves every open correlation id of `ledger` from one engine."""

    def __init__(self, engine: Engine, host: str = "127.0.0.1", port: int = 0, public_url: str | None = None) -> None:
        self.ledger = Ledger()
        self._engine, self._host, self._port, self._public_url = engine, host, port, public_url
        self._server: _Server | None = None
        self._serving: asyncio.Task[None] | None = None
        methods = ["GET", "HEAD", "POST"]
        self.app = Starlette(routes=[Route("/{path:path}", self._handle, methods=methods)])

    @property
    def url(self) -> str:
        """Where it listens."""
        host = f"[{self._host}]" if ":" in self._host else self._host
        return f"http://{host}:{self._port}"

    @property
    def public_url(self) -> str:
        """Where task apps reach it."""
        return (self._public_url or self.url).rstrip("/")

    def chat_url(self, cid: str) -> str:
        return chat_url(self.public_url, cid)

    def base_url(self, cid: str) -> str:
        return base_url(self.public_url, cid)

    async def start(self) -> None:
        """Returns when it listens. Raises GatewayError."""
        sock = socket.socket(socket.AF_INET6 if ":" in self._host else socket.AF_INET, socket.SOCK_STREAM)
        sock.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            sock.bind((self._host, self._port))
        except OSError as error:
            sock.close()
            cause = error.strerror or str(error)
            if error.errno in (errno.EADDRINUSE, errno.EACCES):
                to_do = "set it to a free port, or to 0 for any"
                raise GatewayError(f"inference.gateway_port = {self._port} cannot be used ({cause}); {to_do}") from None
            raise GatewayError(
                f"inference.gateway_host = {self._host!r} cannot be used ({cause}); set it to an address of ours"
            ) from None
        self._port = sock.getsockname()[1]
        config = uvicorn.Config(
            self.app, log_config=None, access_log=False, lifespan="off", timeout_graceful_shutdown=1
        )
        self._server = _Server(config)
        self._serving = asyncio.create_task(self._server.serve(sockets=[sock]))
        while not self._server.started:
            if self._serving.done():
                raise GatewayError(f"the gateway did not start on {self.url}; see logs/gateway.log")
            await asyncio.sleep(0.005)

    async def stop(self) -> None:
        """Open connections are cut after a second. Idempotent."""
        if self._server is not None and self._serving is not None:
            self._server.should_exit = True
            await asyncio.wait([self._serving])

    # --- one request ----------------------------------------------------------------------------------------

    async def _handle(self, request: Request) -> Response:
        address = parse_address(request.url.path, request.url.query)
        try:
            if address.route in ("chat", "completion"):
                if request.method != "POST":
                    raise _Refused(405, "method_not_allowed", "completions are asked for by POST")
                return await self._complete(request, address)
            if address.route == "models":
                model = {"id": self._engine.model_name, "object": "model", "owned_by": "rltui"}
                return _json({"object": "list", "data": [{**model, "max_model_len": self._engine.max_model_len}]})
            if address.route == "health":
                return _json({"status": "ok", "weight_version": self._engine.weight_version})
            raise _Refused(404, "not_found", f"there is no {request.method} {request.url.path[:200]} here")
        except _Refused as refused:
            return refused.response()
        except ClientDisconnect:
            return Response(status_code=CLIENT_LEFT)

    def _episode(self, address: Address) -> Episode:
        if address.cid is None:
            raise _Refused(400, "missing_cid", "the address has no correlation id; keep the query string ?cid=...")
        episode = self.ledger.find(address.cid)
        if episode == "unknown":
            raise _Refused(404, "unknown_cid", "this correlation id was never given out")
        if episode == "gone":
            raise _Refused(410, "episode_finished", "the episode of this correlation id is over")
        assert isinstance(episode, Episode)
        episode.record.malformed += address.repaired
        return episode

    async def _complete(self, request: Request, address: Address) -> Response:
        t_queued = time.time()
        episode = self._episode(address)
        try:
            if episode.started >= episode.policy.call_limit:
                limit = episode.policy.call_limit
                raise _Refused(429, "call_limit", f"the episode has made its {limit} calls; do not retry")
            body = openai.parse_body(await _read_body(request))
            live = await self._start_call(episode, body, chat=address.route == "chat", t_queued=t_queued)
        except (BadRequest, TemplateError) as error:
            param = getattr(error, "param", None)
            refused = _Refused(400, "invalid_request_error", str(error), param)
            episode.fail(refused.code, refused.status, episode.started, str(error))
            raise refused from None
        except _Refused as refused:
            episode.fail(refused.code, refused.status, episode.started, str(refused))
            raise
        except EngineError as error:
            episode.fail("engine_error", 503, episode.started, str(error))
            raise _Refused(503, "engine_error", str(error)) from None
        if body.get("stream"):
            return StreamingResponse(self._stream(live, body, address.route), media_type="text/event-stream")
        await _finish_or_leave(live, request)
        call = live.call
        if live.error is not None:
            raise _Refused(503, "engine_error", str(live.error))
        if live.task.cancelled():
            raise _Refused(410, "episode_finished", "the episode of this correlation id is over")
        if address.route == "completion":
            return _json(openai.completion_response(call, self._engine.model_name))
        logprobs = await self._logprobs(live) if body.get("logprobs") else None
        return _json(openai.chat_response(call, self._engine.model_name, logprobs))

    async def _start_call(self, episode: Episode, body: Json, *, chat: bool, t_queued: float) -> LiveCall:
        """Everything up to the first token. Raises BadRequest, TemplateError, EngineError, _Refused."""
        sampling, forced = call_sampling(body, episode.policy, episode.started)
        if chat:
            messages, tools = openai.parse_messages(body), openai.parse_tools(body)
            prompt, prefix = await self._chat_prompt(episode, body, messages, tools)
        else:
            messages, tools = [{"role": "prompt", "content": body.get("prompt")}], None
            prompt = await self._text_prompt(body)
            prefix = prefix_kind(prompt, episode.record.calls)
        call = new_call(
            episode,
            prompt,
            sampling := self._fit(prompt, sampling),
            messages=messages,
            tools=tools,
            forced=forced,
            prefix=prefix,
            model_asked=body.get("model"),
            t_queued=t_queued,
            engine=self._engine.kind,
        )
        return LiveCall(self._engine, episode, call, sampling)

    async def _chat_prompt(
        self, episode: Episode, body: Json, messages: list[Json], tools: list[Json] | None
    ) -> tuple[list[int], str]:
        """Prompt ids, joined with the recorded ones where the chat goes on from them, and the prefix kind."""
        options = {**episode.policy.template_kwargs, **(body.get("chat_template_kwargs") or {})}
        full = await self._engine.render(messages, tools, options)
        calls = episode.record.calls
        earlier = extended_call(messages, calls)
        if earlier is not None and earlier.tools == tools:
            ends = getattr(self._engine, "eos_token_ids", frozenset())
            joined = await joined_prompt(self._engine, earlier, messages, full, tools, options, ends)
            if joined is not None:
                return joined, "clean"
        return full, prefix_kind(full, calls)

    async def _text_prompt(self, body: Json) -> list[int]:
        prompt = body.get("prompt")
        if isinstance(prompt, list) and len(prompt) == 1 and isinstance(prompt[0], str):
            prompt = prompt[0]
        if not isinstance(prompt, str) or not prompt:
            raise BadRequest("prompt must be a text that is not empty", "prompt")
        return await self._engine.tokenize(prompt)

    def _fit(self, prompt: list[int], sampling: Sampling) -> Sampling:
        room = self._engine.max_model_len - len(prompt)
        if room < 1:
            raise _Refused(
                400,
                "context_length_exceeded",
                f"the prompt has {len(prompt)} tokens, the context limit is {self._engine.max_model_len}",
                "messages",
            )
        return replace(sampling, max_tokens=min(sampling.max_tokens, room))

    async def _stream(self, live: LiveCall, body: Json, route: str | None) -> AsyncIterator[bytes]:
        """Server-sent events. A client that leaves cancels this generator, and so the call."""
        call, chat, model = live.call, route == "chat", self._engine.model_name
        stops, sent, shown = tuple(call.sampling["stop"]), 0, 0
        with_usage = bool((body.get("stream_options") or {}).get("include_usage"))

        def event(delta: Json, finish: str | None = None) -> bytes:
            return _event(openai.stream_chunk(call, model, delta, finish, chat=chat))

        try:
            if chat:
                yield event({"role": "assistant", "content": ""})
            while await live.progress():
                if len(call.completion_token_ids) == shown:
                    continue
                shown = len(call.completion_token_ids)
                text = (await self._engine.derender(call.completion_token_ids)).text
                if (end := safe_length(text, stops)) > sent and not any(s in text for s in stops):
                    yield event({"content": text[sent:end]})
                    sent = end
            if live.error is not None:
                yield _event(openai.error_body(str(live.error), "server_error", None, "engine_error"))
                return
            text = call.response.get("content") or ""
            if len(text) > sent:
                yield event({"content": cut_at_stop(text, call.stop_detail)[sent:]})
            yield event({}, call.finish_reason)
            if with_usage:
                envelope = openai.envelope(call, model, "chat.completion.chunk" if chat else "text_completion")
                yield _event({**envelope, "choices": [], "usage": openai.usage(call)})
            yield b"data: [DONE]\n\n"
        finally:
            live.task.cancel()

    async def _logprobs(self, live: LiveCall) -> Json:
        call, content = live.call, []
        for token, logp in zip(call.completion_token_ids, call.logprobs, strict=True):
            text = (await self._engine.derender([token])).text
            content.append({"token": text, "logprob": logp, "bytes": list(text.encode()), "top_logprobs": []})
        return {"content": content}


async def _read_body(request: Request) -> bytes:
    chunks, size = [], 0
    async for chunk in request.stream():
        size += len(chunk)
        if size > MAX_BODY:
            raise BadRequest(f"the body is over {MAX_BODY} bytes")
        chunks.append(chunk)
    return b"".join(chunks)


async def _finish_or_leave(live: LiveCall, request: Request) -> None:
    """Waits for the call; a client that leaves before aborts it. Raises ClientDisconnect."""
    left = asyncio.create_task(request.receive())  # the body is read: what comes next is the disconnect
    try:
        await asyncio.wait([live.task, left], return_when=asyncio.FIRST_COMPLETED)
        if not live.task.done():
            live.task.cancel()
            await asyncio.wait([live.task])
            raise ClientDisconnect
    finally:
        left.cancel()


def _json(body: Json, status: int = 200) -> Response:
    return Response(msgspec.json.encode(body), status, media_type="application/json")


def _event(body: Json) -> bytes:
    return b"data: " + msgspec.json.encode(body) + b"\n\n"
