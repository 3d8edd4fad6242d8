"""Server-sent events as an answer (WIRE 3.6): blocks, signs of life, and an end to those who do not read."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import AsyncGenerator, Coroutine
from typing import Any

from starlette.responses import Response
from starlette.types import Receive, Scope, Send

from rltui.sources.base import Unreadable
from trainer.rundir.jsonl import encode

KEEP_ALIVE_S = 10.0
KEEP_ALIVE = b": keep-alive\n\n"
STALL_S = 60.0  # that one block may take to leave
HEADERS = {"content-type": "text/event-stream", "cache-control": "no-cache", "x-accel-buffering": "no"}

_log = logging.getLogger("rltui.server")


def _is_news(record: logging.LogRecord) -> bool:
    """A stream that we cut because nobody reads it has no end; uvicorn reports that as an error of ours."""
    return "returned without completing response" not in record.getMessage()


logging.getLogger("uvicorn.error").addFilter(_is_news)


def block(data: Any, event: str, id_: object | None = None) -> bytes:
    """One event. `event` and `id_` stand on lines of their own: what would end a line there is left out."""
    head = b"" if id_ is None else b"id: %s\n" % _one_line(str(id_))
    return head + b"event: %s\ndata: %s\n\n" % (_one_line(event), encode(data))


def _one_line(text: str) -> bytes:
    return "".join(text.split())[:200].encode("utf-8", "replace")


class EventStream(Response):
    """Sends blocks as they come, until they end, the client goes, or a block does not leave within STALL_S."""

    def __init__(self, blocks: AsyncGenerator[bytes, None]) -> None:
        super().__init__(None, 200, HEADERS)
        del self.headers["content-length"]
        self._blocks = blocks

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["method"] == "HEAD":
            await self._blocks.aclose()
            return await Response(None, 200, self.headers)(scope, receive, send)
        try:
            await while_there(receive, self._send(send))
        finally:
            await self._blocks.aclose()

    async def _send(self, send: Send) -> None:
        await send({"type": "http.response.start", "status": 200, "headers": self.raw_headers})
        try:
            async for data in self._blocks:
                async with asyncio.timeout(STALL_S):
                    await send({"type": "http.response.body", "body": data, "more_body": True})
        except TimeoutError:
            return
        except Unreadable:
            pass  # the client comes again, and is told
        except Exception:  # the answer has begun: it can only end, and the log says why
            _log.exception("an event stream broke off")
        await send({"type": "http.response.body", "body": b"", "more_body": False})


async def while_there(receive: Receive, sending: Coroutine[Any, Any, None]) -> None:
    """Send until it is done, or the client goes, or who sends is cut off."""
    tasks = {asyncio.create_task(sending), asyncio.create_task(_gone(receive))}
    try:
        await asyncio.wait(tasks, return_when=asyncio.FIRST_COMPLETED)
    finally:
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)


async def _gone(receive: Receive) -> None:
    while (await receive())["type"] != "http.disconnect":
        pass
