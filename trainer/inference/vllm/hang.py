"""A server that is there and does nothing: when it is suspected, and how it is asked."""

from __future__ import annotations

import asyncio
import time
from collections.abc import AsyncGenerator, Callable, Iterator
from contextlib import aclosing, contextmanager

from trainer.inference.engine import EngineError, Json
from trainer.inference.vllm.http import Refused, VllmClient

SILENT_S = 60.0  # running calls that bring no token for so long are a reason to ask
PROBE_S = 60.0  # what a server that works through long prompts has for one small call
LOOK_S = 2.0


class Progress:
    """Tokens of the running calls, in time. `signs` counts what speaks against a hang: tokens, and new beginnings."""

    def __init__(self, clock: Callable[[], float] = time.monotonic) -> None:
        self._clock = clock
        self._last = clock()
        self.running = self.signs = 0

    @contextmanager
    def call(self) -> Iterator[None]:
        """Around each call. The first after a pause has the whole time again."""
        if not self.running:
            self.rest()
        self.running += 1
        try:
            yield
        finally:
            self.running -= 1

    def arrived(self) -> None:
        self.signs += 1
        self._last = self._clock()

    def rest(self) -> None:
        """Silence is counted from now on: what was before had a reason."""
        self.signs += 1
        self._last = self._clock()

    @property
    def silent_s(self) -> float:
        return self._clock() - self._last

    @property
    def suspicious(self) -> bool:
        return self.running > 0 and self.silent_s >= SILENT_S


async def hung(progress: Progress, client: VllmClient, path: str, body: Json) -> str | None:
    """What to say of a server that hangs. None: it answers the small call `body`, or gave a sign meanwhile."""
    before, running, silent = progress.signs, progress.running, progress.silent_s
    if await _works(client, path, body) or progress.signs != before:
        progress.rest()
        return None
    return (
        f"vLLM hung: {running} running calls brought no token for {silent:.0f} s, and a call of one token brought none "
        f"within {PROBE_S:g} s"
    )


async def _works(client: VllmClient, path: str, body: Json) -> bool:
    """Whether the server is well and answers a small call in time. A refusal is an answer."""
    try:
        async with asyncio.timeout(PROBE_S):
            return await client.healthy() and await _first(client.stream(path, body))
    except Refused:
        return True
    except (TimeoutError, EngineError):
        return False


async def _first(choices: AsyncGenerator[Json, None]) -> bool:
    async with aclosing(choices) as open_choices:
        async for _ in open_choices:
            return True
    return True
