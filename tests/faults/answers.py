"""An ASGI layer that spoils an answer for each file `ask-NUMBER-KIND` in a folder, and renames that to `met-…`."""

from __future__ import annotations

import asyncio
import json
import os
import re
import time
from collections.abc import Callable
from email.utils import formatdate
from pathlib import Path
from typing import Any

STATUSES = ("500", "503", "429", "400", "401", "404", "422")
# `redirect` leads to the same path, `away_redirect` to another origin; `cid` gives the answer another episode's id.
KINDS = (*STATUSES, "hang", "drip", "drop", "bad_json", "shape", "nan", "large", "redirect", "away_redirect", "cid")
LATER = ("503", "429")  # they say when to come back, as a date
ELSEWHERE = "http://127.0.0.1:9/rollout"
LARGE, PIECE = 70 * 2**20, 2**20  # bytes: over every limit of an answer
DRIP_S = 0.2
_NUMBERS = re.compile(rb'(\\*"(?:outcome_reward|reward|score)\\*": ?)-?[0-9][-+.0-9eE]*')


class Faulty:
    """`app`, whose answers to paths that end with `path` break when they are asked to."""

    def __init__(self, app: Any, folder: Path, path: str) -> None:
        self._app, self._folder, self._path = app, folder, path

    async def __call__(self, scope: Any, receive: Any, send: Any) -> None:
        kind = self._next() if scope["type"] == "http" and scope["path"].endswith(self._path) else None
        if kind in (None, "nan", "cid"):
            change = {"nan": _without_numbers, "cid": _of_another}.get(kind or "")
            await self._app(scope, receive, _changed(send, change) if change else send)
            return
        await _whole_request(receive)
        if kind == "hang":
            await asyncio.sleep(3600)
        elif kind in STATUSES:
            later = [(b"retry-after", formatdate(time.time() + 1, usegmt=True).encode())] if kind in LATER else []
            await _answer(send, int(kind), b'{"detail": "asked to fail"}', later)
        elif kind in ("redirect", "away_redirect"):
            place = scope["path"] if kind == "redirect" else ELSEWHERE
            await _answer(send, 307, b"", [(b"location", place.encode())])
        elif kind == "large":
            await _start(send, 200, LARGE)
            for _ in range(LARGE // PIECE):
                await send({"type": "http.response.body", "body": b" " * PIECE, "more_body": True})
            await send({"type": "http.response.body", "body": b""})
        elif kind == "shape":
            await _answer(send, 200, b'{"hello": 1}')
        elif kind == "bad_json":
            await _answer(send, 200, b'{"metrics": {"outcome_reward": ')
        elif kind == "drip":
            await _start(send, 200, 10_000)
            for _ in range(10_000):
                await send({"type": "http.response.body", "body": b" ", "more_body": True})
                await asyncio.sleep(DRIP_S)
        elif kind == "drop":
            await _start(send, 200, 10_000)
            await send({"type": "http.response.body", "body": b'{"metrics": ', "more_body": True})
            raise ConnectionError("asked to drop the connection")

    def _next(self) -> str | None:
        for asked in sorted(self._folder.glob("ask-*")):
            try:
                os.rename(asked, asked.with_name(asked.name.replace("ask", "met", 1)))
            except FileNotFoundError:
                continue  # another request took it
            return asked.name.split("-", 2)[2]
        return None


async def _whole_request(receive: Any) -> None:
    while (await receive()).get("more_body"):
        pass


Headers = list[tuple[bytes, bytes]]


async def _start(send: Any, status: int, length: int, more: Headers | None = None) -> None:
    headers = [(b"content-type", b"application/json"), (b"content-length", str(length).encode()), *(more or [])]
    await send({"type": "http.response.start", "status": status, "headers": headers})


async def _answer(send: Any, status: int, body: bytes, more: Headers | None = None) -> None:
    await _start(send, status, len(body), more)
    await send({"type": "http.response.body", "body": body})


def _without_numbers(body: bytes) -> bytes:
    """Every reward and score is NaN."""
    return _NUMBERS.sub(rb"\1NaN", body)


def _of_another(body: bytes) -> bytes:
    return json.dumps({**json.loads(body), "trace_correlation_id": "of-another-episode"}).encode()


def _changed(send: Any, change: Callable[[bytes], bytes]) -> Any:
    """The true answer, changed."""
    status, body = 200, b""

    async def sent(message: Any) -> None:
        nonlocal status, body
        if message["type"] == "http.response.start":
            status = message["status"]
            return
        body += message.get("body", b"")
        if not message.get("more_body"):
            await _answer(send, status, change(body) if status == 200 else body)

    return sent
