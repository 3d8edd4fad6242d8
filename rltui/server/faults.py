"""Faults of ours: the client gets one sentence, the log one line and where it was."""

from __future__ import annotations

import logging
import traceback
from types import TracebackType

from starlette.types import ASGIApp, Message, Receive, Scope, Send

from rltui.server.answers import Refused

FRAMES = 20  # of a traceback in the log, the last ones
MAX_TEXT = 500  # of what an error says, which may hold what a client sent

log = logging.getLogger("rltui.server")
ExcInfo = tuple[type[BaseException], BaseException, TracebackType | None] | tuple[None, None, None]


class Faults:
    """The outermost ASGI layer: an error ends here, before the servers below log it whole."""

    def __init__(self, app: ASGIApp) -> None:
        self._app = app

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http":
            await self._app(scope, receive, send)
            return
        begun = False

        async def noting(message: Message) -> None:
            nonlocal begun
            begun = True
            await send(message)

        try:
            await self._app(scope, receive, noting)
        except Exception as error:  # whatever it is, a client gets an answer and the log its trace
            log.exception("%s %s failed: %s", scope["method"], ascii(scope["path"])[1:-1][:200], _told(error))
            if not begun:
                fault = Refused(500, "internal", "an error of ours; the server's log has the details")
                await fault.response()(scope, receive, send)


class Brief(logging.Formatter):
    """One line a record, and under it the last frames of its traceback."""

    def formatException(self, ei: ExcInfo) -> str:
        if ei[1] is None:
            return ""
        frames = traceback.format_tb(ei[2], -FRAMES)
        return f"{''.join(frames)}{_told(ei[1])}"


def _told(error: BaseException) -> str:
    return f"{type(error).__name__}: {ascii(str(error))[1:-1][:MAX_TEXT]}"
