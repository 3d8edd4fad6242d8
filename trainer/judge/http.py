"""One POST to a judge. Keys never leave its origin, and never enter what is kept of an answer."""

from __future__ import annotations

import asyncio
import json
import os
from collections.abc import Mapping, Sequence
from datetime import UTC, datetime
from typing import Any
from urllib.parse import urlsplit

import httpx
import msgspec

from trainer.config.launch import LOOPBACK
from trainer.judge.answer import plain
from trainer.judge.errors import JudgeMisconfigured
from trainer.taskapp.bodies import ACCEPTED, Echoes, no_cookies, parts
from trainer.taskapp.client import MAX_REDIRECTS
from trainer.taskapp.codes import clean
from trainer.taskapp.pool import ClientPool
from trainer.taskapp.retries import parse_retry_after

MOST_BYTES = 4 * 2**20
CONNECT_S = 10.0


class CallFailed(Exception):
    """One try gave no scores.

    Args:
        code: of WIRE 1.8.
        http: the status, if there was an answer.
        reply: what was answered, as far as it is kept.
        retry_after: seconds that the judge asks to wait.
        again: whether another try may help.
    """

    def __init__(
        self,
        code: str,
        text: str,
        *,
        http: int | None = None,
        reply: str = "",
        retry_after: float | None = None,
        again: bool = True,
    ) -> None:
        super().__init__(text)
        self.code, self.text, self.http, self.reply = code, text, http, reply
        self.retry_after, self.again = retry_after, again


class Answer(msgspec.Struct, frozen=True):
    """A whole answer. `text` is free of our keys."""

    status: int
    text: str
    retry_after: float | None = None

    def json(self) -> Any:
        """None where it is not JSON."""
        try:
            return json.loads(self.text)
        except (ValueError, RecursionError):
            return None


def is_loopback(url: str) -> bool:
    return (urlsplit(url).hostname or "") in LOOPBACK


def shown(url: str) -> str:
    """A URL without what may be secret in it: user, password, query."""
    parts = urlsplit(url)
    host = f"[{parts.hostname}]" if ":" in (parts.hostname or "") else parts.hostname or ""
    return clean(f"{parts.scheme}://{host}{f':{parts.port}' if parts.port else ''}{parts.path}")


class JudgeHttp:
    """Connections to one URL.

    Args:
        url: it is posted to as it stands.
        secrets: keys; an answer that echoes one is kept without it.
        limit: calls at once.
    """

    def __init__(self, url: str, headers: Mapping[str, str], secrets: Sequence[str], limit: int) -> None:
        self.url = url
        if not all(secret.isascii() and secret.isprintable() for secret in secrets):
            hint = "Export it again: printable ASCII characters only"
            raise JudgeMisconfigured(
                "judge_key", "the judge's key holds characters that no HTTP header can carry", hint
            )
        self._echoes = Echoes(secrets)
        trust_env = not is_loopback(url)
        insecure = os.environ.get("RLTUI_INSECURE_TLS") == "1"
        verify = httpx.create_ssl_context(verify=not insecure, trust_env=trust_env)

        def make(limits: httpx.Limits) -> httpx.AsyncClient:
            timeout = httpx.Timeout(None, connect=CONNECT_S)  # the whole of a call has a limit of its own
            return httpx.AsyncClient(
                headers={**headers, **ACCEPTED},
                cookies=no_cookies(),
                limits=limits,
                timeout=timeout,
                verify=verify,
                trust_env=trust_env,
            )

        self._pool = ClientPool(make, limit)

    async def close(self) -> None:
        await self._pool.close()

    def masked(self, text: str) -> str:
        """`text` without our keys, as they are or escaped as JSON, in JSON within JSON too."""
        return self._echoes.hidden_text(plain(text))

    async def post(self, body: dict[str, Any], timeout_s: float) -> Answer:
        """Any status is an answer.

        Raises:
            CallFailed: judge_transient: no answer in time, or no connection.
            JudgeMisconfigured: a redirect to another origin, or one without end.
        """
        content = json.dumps(body, ensure_ascii=False, default=str).encode("utf-8", "replace")
        try:
            async with asyncio.timeout(timeout_s):
                return await self._post(content)
        except TimeoutError:
            raise CallFailed("judge_transient", f"no answer within {timeout_s:g} s") from None
        except httpx.HTTPError as error:
            why = clean(str(error), 120) or type(error).__name__
            raise CallFailed("judge_transient", f"no answer from {shown(self.url)}: {why}") from None

    async def _post(self, content: bytes) -> Answer:
        url = httpx.URL(self.url)
        for _ in range(MAX_REDIRECTS + 1):
            headers = {"content-type": "application/json"}
            async with (
                self._pool.client() as http,
                http.stream("POST", url, content=content, headers=headers) as response,
            ):
                answer = await self._read(response)
            location = response.headers.get("location")
            if answer.status not in (301, 302, 307, 308) or not location:
                return answer
            try:
                target = url.join(location)
            except httpx.InvalidURL:
                break
            if _origin(target) != _origin(url):
                break
            url = target
        what = f"the judge at {shown(self.url)} redirects to another address, or without end"
        raise JudgeMisconfigured("judge_route", what, "Set the final address: keys are not sent elsewhere", answer.text)

    async def _read(self, response: httpx.Response) -> Answer:
        body = bytearray()
        async for part in parts(response):
            body += part
            if len(body) > MOST_BYTES:
                raise CallFailed(
                    "judge_unparsable", f"the answer is over {MOST_BYTES} bytes", http=response.status_code
                )
        text = self.masked(body.decode("utf-8", "replace"))
        wait = parse_retry_after(response.headers.get("retry-after"), datetime.now(UTC))
        return Answer(response.status_code, text, wait)


def _origin(url: httpx.URL) -> tuple[str, str, int | None]:
    return url.scheme, url.host, url.port or {"http": 80, "https": 443}.get(url.scheme)
