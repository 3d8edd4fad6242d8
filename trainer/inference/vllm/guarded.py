"""In vLLM's server on another node (`--middleware`): no call without the run token, whatever its path.

vLLM's own --api-key leaves the calls alone that pause it and load weights from files.
"""

from __future__ import annotations

import hmac
import os
from collections.abc import Awaitable, Callable, MutableMapping
from typing import Any

from trainer.frames import TOKEN

Scope = MutableMapping[str, Any]
Receive = Callable[[], Awaitable[Scope]]
Send = Callable[[Scope], Awaitable[None]]


class Guarded:
    """An ASGI application around another one."""

    def __init__(self, app: Callable[[Scope, Receive, Send], Awaitable[None]]) -> None:
        self._app, self._wanted = app, f"Bearer {os.environ[TOKEN]}".encode()

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] == "lifespan" or hmac.compare_digest(_given(scope), self._wanted):
            await self._app(scope, receive, send)
        elif scope["type"] == "http":
            await send({"type": "http.response.start", "status": 401, "headers": [(b"content-type", b"text/plain")]})
            await send({"type": "http.response.body", "body": b"the run token is missing"})
        else:
            await send({"type": "websocket.close", "code": 1008})


def _given(scope: Scope) -> bytes:
    return next((value for name, value in scope["headers"] if name == b"authorization"), b"")
