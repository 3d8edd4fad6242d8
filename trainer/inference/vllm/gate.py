"""Where new calls wait while the server is updated or started again."""

from __future__ import annotations

import asyncio


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
