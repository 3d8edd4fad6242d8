"""A vLLM server over HTTP: its control calls, and the stream of one completion."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import aclosing
from typing import Any

import httpx
import msgspec

from trainer.inference.engine import ContextOverflow, EngineError

Json = dict[str, Any]

CONNECT_S = 10.0
CONTROL_S = 60.0  # a call that moves no weights
IDLE_CONNECTION_S = 2.0  # vLLM closes one after 5 s; a request must not meet that moment
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
            return (await self._http.get("/health", timeout=timeout_s)).status_code == 200
        except (httpx.HTTPError, OSError):
            return False

    async def call(
        self, method: str, path: str, body: Json | None = None, *, timeout_s: float = CONTROL_S, **query: str
    ) -> Json:
        """One control call; its JSON answer. Raises EngineError, Refused, ContextOverflow."""
        try:
            response = await self._http.request(
                method,
                path,
                params=query or None,
                content=None if body is None else msgspec.json.encode(body),
                headers={"Content-Type": "application/json"} if body is not None else None,
                timeout=httpx.Timeout(timeout_s, connect=CONNECT_S),
            )
        except httpx.TimeoutException:
            raise EngineError(f"vLLM did not answer {path} within {timeout_s:g} s") from None
        except (httpx.HTTPError, OSError) as error:
            raise _lost(path, error) from None
        if response.status_code != 200:
            raise _refusal(path, response.status_code, response.content)
        try:
            answer = msgspec.json.decode(response.content)
        except msgspec.DecodeError:
            return {}
        return answer if isinstance(answer, dict) else {"answer": answer}

    async def stream(self, path: str, body: Json) -> AsyncIterator[Json]:
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
                raise _refusal(path, response.status_code, await response.aread())
            async with aclosing(response.aiter_bytes()) as parts:
                async for event in _events(parts):
                    if (error := event.get("error")) is not None:
                        raise _refusal(path, int(error.get("code") or 500), msgspec.json.encode(event))
                    for choice in event.get("choices", ()):
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


async def _events(parts: AsyncIterator[bytes]) -> AsyncIterator[Json]:
    """Server-sent events, one `data:` line each, up to [DONE]."""
    rest = b""
    async for part in parts:
        *lines, rest = (rest + part).split(b"\n")
        for line in lines:
            if not line.startswith(b"data:"):
                continue
            data = line[5:].strip()
            if data == b"[DONE]":
                return
            yield msgspec.json.decode(data)


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
