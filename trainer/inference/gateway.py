"""The OpenAI-compatible endpoint of every episode (WIRE 2): render, join, generate, derender, record, answer."""

from __future__ import annotations

import asyncio
import contextlib
import errno
import logging
import socket
from collections.abc import AsyncIterator, Coroutine, Iterator
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
from trainer.inference.chat import NoToolParser, TemplateError
from trainer.inference.engine import ContextOverflow, Engine, EngineError, Sampling
from trainer.inference.joining import Prompt, chat_prompt, extended_call, shared, text_prompt
from trainer.inference.ledger import NO_TOOL_PARSER, Episode, Ledger
from trainer.inference.live_call import LiveCall, new_call
from trainer.inference.sampling import BadRequest, call_sampling
from trainer.inference.streaming import ReplyStream
from trainer.steady import steady
from trainer.taskapp.slow import Timely

Json = dict[str, Any]

MAX_BODY = 10 * 1024 * 1024
METHODS = ("GET", "HEAD", "POST")
REFUSED_METHODS = ("PUT", "PATCH", "DELETE", "OPTIONS", "TRACE")  # by us: an SDK cannot read Starlette's refusal
CLIENT_LEFT = 499  # never sent: nobody is there to read it

LOGGER = "trainer.gateway"
_log = logging.getLogger(LOGGER)
_log.addHandler(logging.NullHandler())  # else Python prints to the terminal


def _is_news(record: logging.LogRecord) -> bool:
    """uvicorn reports each call that the end of the run cuts off as an error of ours, with its traceback."""
    return not (record.exc_info and isinstance(record.exc_info[1], asyncio.CancelledError))


logging.getLogger("uvicorn.error").addFilter(_is_news)


class GatewayError(RuntimeError):
    """The gateway cannot serve. The text names the key to change."""


class _Refused(Exception):
    """Ends a call with an OpenAI error body."""

    def __init__(self, status: int, code: str, message: str, param: str | None = None) -> None:
        super().__init__(message)
        self.status, self.code, self.param = status, code, param

    def body(self) -> Json:
        kind = "invalid_request_error" if self.status < 500 else "server_error"
        return openai.error_body(str(self), kind, self.param, self.code)

    def response(self) -> Response:
        response = _json(self.body(), self.status)
        # OpenAI's SDK repeats 429 and 5xx by itself: here that helps nothing, the whole episode is tried again
        response.headers["x-should-retry"] = "false"
        return response


class _NotAllowed(_Refused):
    def __init__(self, message: str, allowed: str) -> None:
        super().__init__(405, "method_not_allowed", message)
        self._allowed = allowed

    def response(self) -> Response:
        response = super().response()
        response.headers["allow"] = self._allowed
        return response


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
        self.app = Starlette(routes=[Route("/{path:path}", self._handle, methods=[*METHODS, *REFUSED_METHODS])])

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
        family = socket.AF_INET6 if ":" in self._host else socket.AF_INET
        # with the protocol named, asyncio switches Nagle's algorithm off: it would hold every answer back by 40 ms
        sock = socket.socket(family, socket.SOCK_STREAM, socket.IPPROTO_TCP)
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
            self.app, http=Timely, log_config=None, access_log=False, lifespan="off", timeout_graceful_shutdown=1
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
                    raise _NotAllowed("completions are asked for by POST", "POST")
                return await self._complete(request, address)
            if request.method in REFUSED_METHODS:
                raise _NotAllowed(f"{request.method} is not served", "GET, HEAD")
            if address.route == "models":
                return _json(self._models(request.url.path))
            if address.route == "health":
                return _json({"status": "ok", "weight_version": self._engine.weight_version})
            what = f"there is no {request.method} {request.url.path[:200]} here"
            raise _Refused(404, "not_found", f"{what}; chat/completions, completions and models are served")
        except _Refused as refused:
            _log_refusal(address.cid, refused)
            return refused.response()
        except ClientDisconnect:
            return Response(status_code=CLIENT_LEFT)
        except Exception:  # a fault of ours: its traceback is for the log, the client gets what its SDK can read
            _log.exception("%s %s failed", request.method, address.route)
            return _Refused(500, "internal_error", "the gateway failed; see its log").response()

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
        t_queued = steady()
        episode = self._episode(address)
        try:
            if episode.started >= episode.policy.call_limit:
                raise _call_limit(episode)
            body = openai.parse_body(await _read_body(request))
            live = await self._start_call(episode, body, chat=address.route == "chat", t_queued=t_queued)
        except (BadRequest, TemplateError) as error:
            code = NO_TOOL_PARSER if isinstance(error, NoToolParser) else "invalid_request_error"
            refused = _Refused(400, code, str(error), getattr(error, "param", None))
            episode.fail(refused.code, refused.status, episode.started, str(error))
            raise refused from None
        except _Refused as refused:
            episode.fail(refused.code, refused.status, episode.started, str(refused))
            raise
        except RecursionError:
            episode.fail("invalid_request_error", 400, episode.started, "the request is nested too deeply")
            raise _Refused(400, "invalid_request_error", "the request is nested too deeply") from None
        except EngineError as error:
            episode.fail("engine_error", 503, episode.started, str(error))
            raise _Refused(503, "engine_error", str(error)) from None
        shape = openai.Shape(body, self._engine.model_name, chat=address.route == "chat")
        stream = body.get("stream")
        await _wait_or_leave(live, request, live.progress() if stream else None)
        if live.task.done():
            self._raise_failure(live)
        if stream:
            return StreamingResponse(self._stream(live, shape), media_type="text/event-stream")
        tokens = self._texts(live.call.completion_token_ids) if shape.logprobs else []
        return _json(shape.whole(live.call, tokens))

    def _raise_failure(self, live: LiveCall) -> None:
        if isinstance(live.error, ContextOverflow):
            raise _Refused(400, "context_length_exceeded", str(live.error), "messages")
        if live.error is not None:
            raise _Refused(503, "engine_error", str(live.error))
        if live.task.cancelled():
            raise _Refused(410, "episode_finished", "the episode of this correlation id is over")

    async def _start_call(self, episode: Episode, body: Json, *, chat: bool, t_queued: float) -> LiveCall:
        """Everything up to the first token. Raises BadRequest, TemplateError, EngineError, _Refused."""
        sampling, forced = call_sampling(body, episode.policy, episode.started)
        tools, options, calls = None, {}, episode.record.calls
        if chat:
            messages, tools = openai.parse_messages(body), openai.parse_tools(body)
            options = {**episode.policy.template_kwargs, **(body.get("chat_template_kwargs") or {})}
            earlier = extended_call(messages, calls)
            prompt = await chat_prompt(self._engine, earlier, calls, messages, tools, options)
            messages = shared(messages, earlier)
            if earlier is not None and earlier.tools == tools:
                tools = earlier.tools
        else:
            text = openai.parse_text_prompt(body)
            messages, prompt = [{"role": "prompt", "content": text}], await text_prompt(self._engine, calls, text)
        sampling = self._fit(prompt, sampling)
        if episode.started >= episode.policy.call_limit:  # others were started while this one was rendered
            raise _call_limit(episode)
        call = new_call(
            episode,
            prompt,
            sampling,
            messages=messages,
            tools=tools,
            forced=forced,
            model_asked=body.get("model"),
            template_kwargs=options,
            t_queued=t_queued,
            engine=self._engine.kind,
        )
        return LiveCall(self._engine, episode, call, sampling, chat=chat)

    def _fit(self, prompt: Prompt, sampling: Sampling) -> Sampling:
        room = self._engine.max_model_len - len(prompt.ids)
        if room < 1:
            raise _Refused(
                400,
                "context_length_exceeded",
                f"the prompt has {len(prompt.ids)} tokens, the context limit is {self._engine.max_model_len}",
                "messages",
            )
        return replace(sampling, max_tokens=min(sampling.max_tokens, room))

    async def _stream(self, live: LiveCall, shape: openai.Shape) -> AsyncIterator[bytes]:
        """Server-sent events. A client that leaves cancels this generator, and so the call."""
        call, engine = live.call, self._engine
        stream = ReplyStream(
            engine.decode,
            stops=call.sampling["stop"],
            markers=engine.tool_markers if call.tools else (),
            reasoning=shape.chat and engine.reasoning,
            thinking=live.thinking,
        )
        seen = told = characters = 0  # tokens pushed, tokens whose logprobs were sent, characters sent

        def event(chunk: Json) -> bytes:
            nonlocal told
            if shape.logprobs and told < len(call.completion_token_ids):
                tokens = self._texts(call.completion_token_ids[told:])
                shape.add_logprobs(chunk, tokens, call.logprobs[told : told + len(tokens)], characters)
                told += len(tokens)
            return _event(chunk)

        try:
            if (opening := shape.opening(call)) is not None:
                yield _event(opening)
            while not live.task.done():
                new = call.completion_token_ids[seen:]
                seen += len(new)
                for part, text in stream.push(new):
                    yield event(shape.delta(call, part, text))
                    characters += len(text)
                await live.progress()
            try:
                self._raise_failure(live)
            except _Refused as refused:
                _log_refusal(call.cid, refused)
                yield _event(refused.body())
                return
            assert live.reply is not None
            for part, text in stream.finish(live.reply):
                yield event(shape.delta(call, part, text))
                characters += len(text)
            if (calls := shape.tool_calls(call)) is not None:
                yield event(calls)
            yield event(shape.closing(call))
            if shape.usage:
                yield _event(shape.usage_chunk(call))
            yield b"data: [DONE]\n\n"
        finally:
            live.task.cancel()

    def _texts(self, token_ids: list[int]) -> list[str]:
        return [self._engine.decode([token]) for token in token_ids]

    def _models(self, path: str) -> Json:
        model = {
            "id": self._engine.model_name,
            "object": "model",
            "created": 0,
            "owned_by": "rltui",
            "max_model_len": self._engine.max_model_len,
        }
        return model if "/models/" in path else {"object": "list", "data": [model]}


def _log_refusal(cid: str | None, refused: _Refused) -> None:
    """Who asked and what was said may hold what others wrote: shown so that it stays on one line."""
    _log.warning("%s: %s %s %r", ascii(cid)[:100], refused.status, refused.code, str(refused)[:500])


def _call_limit(episode: Episode) -> _Refused:
    limit = episode.policy.call_limit
    return _Refused(429, "call_limit", f"the episode has made its {limit} calls; do not retry")


async def _read_body(request: Request) -> bytes:
    chunks, size = [], 0
    async for chunk in request.stream():
        size += len(chunk)
        if size > MAX_BODY:
            raise BadRequest(f"the body is over {MAX_BODY} bytes")
        chunks.append(chunk)
    return b"".join(chunks)


async def _wait_or_leave(live: LiveCall, request: Request, until: Coroutine[Any, Any, object] | None) -> None:
    """Waits for the end of the call, or for `until`; a client that leaves before aborts it. Raises ClientDisconnect."""
    left = asyncio.create_task(request.receive())  # the body is read: what comes next is the disconnect
    first = live.task if until is None else asyncio.create_task(until)
    try:
        await asyncio.wait([first, left], return_when=asyncio.FIRST_COMPLETED)
        if not first.done():
            live.task.cancel()
            await asyncio.wait([live.task])
            raise ClientDisconnect
    except asyncio.CancelledError:
        live.task.cancel()
        raise
    finally:
        left.cancel()
        if first is not live.task:
            first.cancel()


def _json(body: Json, status: int = 200) -> Response:
    return Response(msgspec.json.encode(body), status, media_type="application/json")


def _event(body: Json) -> bytes:
    return b"data: " + msgspec.json.encode(body) + b"\n\n"
