"""HTTP connections for many concurrent calls to one server."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import AsyncIterator, Callable

import httpx


class ClientPool:
    """Hands out HTTP clients of one connection each, the most recently used first.

    One client with a large pool would be simpler, but at each request and reply it looks at all its
    connections for each waiting request: with 32 calls in flight that is half the CPU time of a call.
    """

    def __init__(self, make: Callable[[httpx.Limits], httpx.AsyncClient], limit: int | None = None) -> None:
        """make: builds a client with the given limits. limit: clients in use at once, None for no limit."""
        self._make = make
        self._idle: list[httpx.AsyncClient] = []
        self._limit = limit
        self._room = asyncio.Semaphore(limit) if limit is not None else None

    def raise_to(self, limit: int) -> None:
        """Allows more clients in use at once. A lower limit changes nothing: whoever asks for fewer starts fewer."""
        if self._limit is None or self._room is None:
            return
        for _ in range(limit - self._limit):
            self._room.release()
        self._limit = max(limit, self._limit)

    @contextlib.asynccontextmanager
    async def client(self) -> AsyncIterator[httpx.AsyncClient]:
        """A client that nobody else uses for as long as the block lasts; waits for room."""
        async with self._room or contextlib.nullcontext():
            # uvicorn closes a connection after 5 idle seconds: one that old is not used again.
            limits = httpx.Limits(max_connections=1, max_keepalive_connections=1, keepalive_expiry=3.0)
            client = self._idle.pop() if self._idle else self._make(limits)
            try:
                yield client
            except BaseException:
                await client.aclose()  # its one connection is in an unknown state
                raise
            self._idle.append(client)

    async def close(self) -> None:
        for client in self._idle:
            await client.aclose()
        self._idle.clear()
