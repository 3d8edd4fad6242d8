"""A vLLM server over HTTP: its control calls, and the stream of one completion."""

from __future__ import annotations

import asyncio
import socket
from collections.abc import AsyncGenerator, AsyncIterator
from contextlib import aclosing, suppress
from typing import Any

import httpx
import msgspec

from trainer.inference.engine import ContextOverflow, EngineError

Json = dict[str, Any]

CONNECT_S = 10.0
CONTROL_S = 60.0  # a call that moves no weights
IDLE_CONNECTION_S = 2.0  # vLLM closes one after 5 s; a request must not meet that moment
MAX_ANSWER = 64 << 20  # bytes, of an answer to a control call and of one event of a stream
MAX_FAULT, FAULT_S = 64 << 10, 5.0  # of the body of a 4xx or 5xx: what is not there by then is left unread
_OVERFLOW = ("maximum context length", "maximum model length", "max_model_len", "context length")


class Refused(EngineError):
    """The server answered 4xx: it lives, and will refuse this again."""


class VllmClient:
    """Every failure is an EngineError that names the call; a 4xx is `Refused`."""

    def __init__(self, base_url: str, *, socket: str | None = None, api_key: str | None = None) -> None:
        self.base_url = base_url
        limits = httpx.Limits(max_connections=None, max_keepalive_connections=64, keepalive_expiry=IDLE_CONNECTION_S)
        self._http = httpx.AsyncClient(
            base_url=base_url,
            transport=httpx.AsyncHTTPTransport(uds=socket, limits=limits),
            timeout=httpx.Timeout(None, connect=CONNECT_S),
            headers={"Authorization": f"Bearer {api_key}"} if api_key else {},
        )

    @classmethod
    def over_socket(cls, path: str) -> VllmClient:
        return cls("http://vllm", socket=path)

    async def close(self) -> None:
        await self._http.aclose()

    async def healthy(self, timeout_s: float = CONNECT_S) -> bool:
        try:
            async with asyncio.timeout(timeout_s), self._http.stream("GET", "/health") as response:
                await _content("/health", response)
                return response.status_code == 200
        except (httpx.HTTPError, OSError, EngineError):
            return False

    async def call(
        self, method: str, path: str, body: Json | None = None, *, timeout_s: float = CONTROL_S, **query: str
    ) -> Json:
        """One control call; its JSON answer. Raises EngineError, Refused, ContextOverflow."""
        request = self._http.stream(
            method,
            path,
            params=query or None,
            content=None if body is None else msgspec.json.encode(body),
            headers={"Content-Type": "application/json"} if body is not None else None,
        )
        try:
            async with asyncio.timeout(timeout_s), request as response:
                content = await _content(path, response)
        except (httpx.TimeoutException, TimeoutError):
            raise EngineError(f"vLLM did not answer {path} within {timeout_s:g} s") from None
        except (httpx.HTTPError, OSError) as error:
            raise _lost(path, error) from None
        if response.status_code != 200:
            raise _refusal(path, response.status_code, content)
        try:
            answer = msgspec.json.decode(content)
        except msgspec.DecodeError:
            return {}
        return answer if isinstance(answer, dict) else {"answer": answer}

    async def stream(self, path: str, body: Json) -> AsyncGenerator[Json, None]:
        """The choices of one streamed completion. Leaving the iterator closes the connection, which aborts it."""
        request = self._http.build_request(
            "POST", path, content=msgspec.json.encode(body), headers={"Content-Type": "application/json"}
        )
        try:
            response = await self._http.send(request, stream=True)
        except (httpx.HTTPError, OSError) as error:
            raise _lost(path, error) from None
        try:
            if response.status_code != 200:
                raise _refusal(path, response.status_code, await _content(path, response))
            async with aclosing(response.aiter_bytes()) as parts:
                async for data in _events(path, parts):
                    for choice in _choices(path, data):
                        yield choice
        except (httpx.HTTPError, OSError) as error:
            raise _lost(path, error) from None
        finally:
            await asyncio.shield(response.aclose())


def without_user(url: str) -> str:
    """An address without the name and key that may stand in it."""
    scheme, separator, rest = url.partition("://")
    host, slash, path = rest.partition("/")
    return f"{scheme}{separator}{host.rpartition('@')[2]}{slash}{path}"


async def _content(path: str, response: httpx.Response) -> bytes:
    """Its body; of a 4xx or 5xx what comes of it within MAX_FAULT and FAULT_S. The connection of a 5xx is not used
    again: the server closes it too, but says nothing of that, and the next call would meet that moment. Raises
    EngineError for an answer that is too long."""
    failed, content = response.status_code >= 400, bytearray()
    try:
        async with asyncio.timeout(FAULT_S if failed else None), aclosing(response.aiter_bytes()) as parts:
            async for part in parts:
                content += part
                if failed and len(content) >= MAX_FAULT:
                    break
                if len(content) > MAX_ANSWER:
                    raise EngineError(f"vLLM's answer to {path} is longer than {MAX_ANSWER >> 20} MB")
    except TimeoutError:
        if not failed:
            raise
    if response.status_code >= 500:
        with suppress(OSError):  # closed already
            response.extensions["network_stream"].get_extra_info("socket").shutdown(socket.SHUT_RDWR)
    return bytes(content)


async def _events(path: str, parts: AsyncIterator[bytes]) -> AsyncIterator[bytes]:
    """What server-sent events hold, one `data:` line each, up to [DONE]. Raises EngineError for one without end."""
    rest = b""
    async for part in parts:
        *lines, rest = (rest + part).split(b"\n")
        for line in lines:
            if not line.startswith(b"data:"):
                continue
            data = line[5:].strip()
            if data == b"[DONE]":
                return
            yield data
        if len(rest) > MAX_ANSWER:
            raise EngineError(f"vLLM streamed an event of more than {MAX_ANSWER >> 20} MB in {path}")


def _choices(path: str, data: bytes) -> list[Json]:
    """Of one event. Raises EngineError where it tells of one, or is none."""
    try:
        event = msgspec.json.decode(data)
        choices = event.get("choices") or []
        if (error := event.get("error")) is not None:
            code = error.get("code") if isinstance(error, dict) else None
            raise _refusal(path, code if isinstance(code, int) and code else 500, data)
        if not all(isinstance(choice, dict) for choice in choices):
            raise TypeError
    except (msgspec.DecodeError, AttributeError, TypeError):
        shown = data[:80].decode(errors="replace")
        raise EngineError(f"vLLM streamed what is no event of a completion in {path}: {shown}") from None
    return list(choices)


def _lost(path: str, error: Exception) -> EngineError:
    return EngineError(f"the connection to vLLM broke during {path} ({type(error).__name__})")


def _refusal(path: str, status: int, content: bytes) -> EngineError:
    text = _message(content)
    if status == 400 and any(sign in text for sign in _OVERFLOW):
        return ContextOverflow(text)
    kind = Refused if 400 <= status < 500 else EngineError
    return kind(f"vLLM answered {status} to {path}: {text}")


def _message(content: bytes) -> str:
    try:
        body = msgspec.json.decode(content)
    except msgspec.DecodeError:
        return content.decode(errors="replace")[:300] or "no text"
    error = body.get("error", body) if isinstance(body, dict) else body
    text = error.get("message") or error.get("detail") if isinstance(error, dict) else error
    return str(text or body)[:300]
