"""An end to requests that do not come: half a head, or a body whose next part stays away, would hold a connection for
as long as its client likes, and needs no token for it.
"""

from __future__ import annotations

import asyncio

from uvicorn.protocols.http.auto import AutoHTTPProtocol

HEAD_S = 10.0  # from the connection, or the first byte of a further request, to the end of its head
PART_S = 10.0  # from one part of a body to the next


class Timely(AutoHTTPProtocol):  # type: ignore[misc, valid-type]
    """uvicorn's protocol, which cuts off who is too slow. What is being answered, a stream above all, may take as
    long as it takes; a connection that rests between two requests is ended by uvicorn itself.
    """

    def connection_made(self, transport: asyncio.Transport) -> None:
        super().connection_made(transport)
        self._part_at = self.loop.time()
        self._head_since: float | None = self._part_at
        self._timer = self.loop.call_later(HEAD_S, self._look)

    def data_received(self, data: bytes) -> None:
        self._part_at = self.loop.time()
        if self._awaits_head() and self._head_since is None:
            self._head_since = self._part_at
        super().data_received(data)
        if not self._awaits_head():
            self._head_since = None

    def connection_lost(self, exc: Exception | None) -> None:
        self._timer.cancel()
        super().connection_lost(exc)

    def _awaits_head(self) -> bool:
        return self.cycle is None or self.cycle.response_complete

    def _look(self) -> None:
        now = self.loop.time()
        due = now + min(HEAD_S, PART_S)
        if self._head_since is not None:
            due = self._head_since + HEAD_S
        elif not self._awaits_head() and self.cycle.more_body and not self.flow.read_paused:
            due = self._part_at + PART_S
        if due <= now:
            self.transport.abort()
        else:
            self._timer = self.loop.call_at(due, self._look)
