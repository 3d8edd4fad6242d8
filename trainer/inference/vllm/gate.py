"""Where new calls wait while the server is updated or started again, and for how long updates held them."""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

from trainer.steady import steady

KEPT = 256  # updates; a call that is older has seen a few of them at most


async def opened(gate: asyncio.Event, ended: asyncio.Future[None], timeout_s: float) -> bool:
    """Whether the gate is open, waited for until the engine has ended or the time is over."""
    if gate.is_set() or ended.done():
        return gate.is_set()
    waiting = asyncio.ensure_future(gate.wait())
    try:
        await asyncio.wait([waiting, ended], timeout=timeout_s, return_when=asyncio.FIRST_COMPLETED)
    finally:
        waiting.cancel()
    return gate.is_set()


class Holds:
    """The times in which an update of weights held every call."""

    def __init__(self) -> None:
        self._held: deque[tuple[float, float]] = deque(maxlen=KEPT)  # of `steady`

    @asynccontextmanager
    async def held(self) -> AsyncIterator[None]:
        began = steady()
        try:
            yield
        finally:
            self._held.append((began, steady()))

    def within(self, start: float, end: float) -> float:
        """Seconds of [start, end)."""
        return sum(max(0.0, min(end, b) - max(start, a)) for a, b in self._held)
