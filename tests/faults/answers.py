"""An ASGI layer that spoils an answer for each file `ask-NUMBER-KIND` in a folder, and renames that to `met-…`."""

from __future__ import annotations

import asyncio
import os
import re
from pathlib import Path
from typing import Any

STATUSES = ("500", "503", "429", "400", "401", "404", "422")
KINDS = (*STATUSES, "hang", "drip", "drop", "bad_json", "shape", "nan")
DRIP_S = 0.2
_NUMBERS = re.compile(rb'(\\*"(?:outcome_reward|reward|score)\\*": ?)-?[0-9][-+.0-9eE]*')


class Faulty:
    """`app`, whose answers to paths that end with `path` break when they are asked to."""

    def __init__(self, app: Any, folder: Path, path: str) -> None:
        self._app, self._folder, self._path = app, folder, path

    async def __call__(self, scope: Any, receive: Any, send: Any) -> None:
        kind = self._next() if scope["type"] == "http" and scope["path"].endswith(self._path) else None
        if kind is None or kind == "nan":
            await self._app(scope, receive, _without_numbers(send) if kind else send)
            return
        await _whole_request(receive)
        if kind == "hang":
            await asyncio.sleep(3600)
        elif kind in STATUSES:
            await _answer(send, int(kind), b'{"detail": "asked to fail"}')
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


async def _start(send: Any, status: int, length: int) -> None:
    headers = [(b"content-type", b"application/json"), (b"content-length", str(length).encode())]
    await send({"type": "http.response.start", "status": status, "headers": headers})


async def _answer(send: Any, status: int, body: bytes) -> None:
    await _start(send, status, len(body))
    await send({"type": "http.response.body", "body": body})


def _without_numbers(send: Any) -> Any:
    """The true answer, in which every reward and score is NaN."""
    status, body = 200, b""

    async def changed(message: Any) -> None:
        nonlocal status, body
        if message["type"] == "http.response.start":
            status = message["status"]
            return
        body += message.get("body", b"")
        if not message.get("more_body"):
            await _answer(send, status, _NUMBERS.sub(rb"\1NaN", body))

    return changed
