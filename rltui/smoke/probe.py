"""Single requests to a task app, with this key or that, each recorded."""

from __future__ import annotations

import asyncio
import os
import ssl
import time
from collections.abc import Sequence
from typing import Any

import httpx

from rltui.smoke.net import is_loopback
from rltui.smoke.record import Recorder
from trainer.taskapp.auth import auth_headers
from trainer.taskapp.bodies import ACCEPTED, MAX_BODY_BYTES, Answer, no_cookies, parts

LIMIT_S = 10.0


class NoAnswer(Exception):
    """Nothing came back. The text says why, in a few words."""


class Probe:
    """Asks one app; redirects are not followed, so that a key never leaves it."""

    def __init__(self, base_url: str, recorder: Recorder) -> None:
        self._base, self._recorder = base_url.rstrip("/"), recorder
        timeout = httpx.Timeout(None, connect=LIMIT_S)
        trust_env = not is_loopback(base_url)
        insecure = os.environ.get("RLTUI_INSECURE_TLS") == "1"
        verify = httpx.create_ssl_context(verify=not insecure, trust_env=trust_env)
        self._http = httpx.AsyncClient(
            headers=ACCEPTED, cookies=no_cookies(), timeout=timeout, verify=verify, trust_env=trust_env
        )

    async def get(self, path: str, keys: Sequence[str] = (), params: Any = None, limit_s: float = LIMIT_S) -> Answer:
        """The answer, whatever its status. Raises NoAnswer."""
        url = httpx.URL(self._base + path)
        if params:
            url = url.copy_merge_params(params)
        began, answer = time.monotonic(), None
        try:
            async with asyncio.timeout(limit_s), self._http.stream("GET", url, headers=auth_headers(list(keys))) as got:
                body = bytearray()
                async for part in parts(got):
                    body += part
                    if len(body) > MAX_BODY_BYTES:
                        break
                answer = Answer(got.status_code, got.headers, bytes(body), len(body) > MAX_BODY_BYTES)
        except TimeoutError:
            raise NoAnswer(f"no answer within {limit_s:g} s") from None
        except httpx.HTTPError as error:
            raise NoAnswer(in_words(error)) from None
        finally:
            self._recorder.observe("GET", str(url), None, answer, time.monotonic() - began)
        return answer

    async def close(self) -> None:
        await self._http.aclose()


def in_words(error: BaseException) -> str:
    """A transport error in a few words."""
    cause: BaseException | None = error
    while cause is not None:
        if isinstance(cause, ConnectionRefusedError):
            return "connection refused"
        if isinstance(cause, ssl.SSLCertVerificationError):
            return f"a certificate that is not trusted ({cause.verify_message})"
        cause = cause.__cause__ or cause.__context__
    if isinstance(error, httpx.RemoteProtocolError):
        if "without sending a response" in str(error):
            return "no HTTP: the connection was closed without an answer"
        closed = "peer closed" in str(error)
        return "the connection was closed in the middle of the answer" if closed else "an answer that is not HTTP"
    return str(error)[:200] or type(error).__name__
