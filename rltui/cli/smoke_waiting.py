"""What a smoke test waits for, said when nothing has happened for a while."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import AsyncIterator

from rltui.smoke.events import CallSeen, EpisodeBegan, EpisodeEnded, Event, StageBegan, TurnSeen
from rltui.text import clean

FIRST_S, LATER_S = 5.0, 60.0  # of silence before it is said, and said again
TICK_S = 1.0


class Waiting:
    """Times are seconds of any clock. limit_s: of one episode."""

    def __init__(self, limit_s: float) -> None:
        self._limit_s = limit_s
        self._stage: StageBegan | None = None
        self._open: dict[int, EpisodeBegan] = {}
        self._asking: set[int] = set()  # episodes whose call the policy answers now
        self._since, self._due = 0.0, FIRST_S

    def seen(self, event: Event, now: float) -> None:
        self._since, self._due = now, FIRST_S
        if isinstance(event, StageBegan):
            self._stage = event
            self._open.clear()
            self._asking.clear()
        elif isinstance(event, EpisodeBegan):
            self._open[event.n] = event
        elif isinstance(event, CallSeen):
            self._asking.add(event.n)
        elif isinstance(event, TurnSeen):
            self._asking.discard(event.n)
        elif isinstance(event, EpisodeEnded):
            self._open.pop(event.episode.n, None)
            self._asking.discard(event.episode.n)

    def line(self, now: float) -> str | None:
        """The line to say now; None: it is too early, or nothing is waited for."""
        silent = now - self._since
        if self._stage is None or silent < self._due:
            return None
        self._due = silent + LATER_S
        limit_s = self._limit_s if self._open else self._stage.limit_s
        until = "" if limit_s is None else f" (limit {limit_s:g} s)"
        return f"        {self._stage.id} waits {silent:.0f} s for {self._what()}{until}"

    def _what(self) -> str:
        assert self._stage is not None
        if not self._open:
            return f"the app: {clean(self._stage.title)}"
        first = next(iter(self._open.values()))
        whose = f"seed {first.seed}" if len(self._open) == 1 else f"{len(self._open)} episodes"
        return (
            f"the policy to answer a call of {whose}" if self._asking else f"the app to answer POST /rollout of {whose}"
        )


async def ticking(events: AsyncIterator[Event], period_s: float = TICK_S) -> AsyncIterator[Event | None]:
    """The events as they come, and None each time that none has come for `period_s`."""
    coming = asyncio.ensure_future(anext(events, None))
    try:
        while True:
            await asyncio.wait([coming], timeout=period_s)
            if not coming.done():
                yield None
                continue
            if (event := coming.result()) is None:
                return
            coming = asyncio.ensure_future(anext(events, None))
            yield event
    finally:
        if not coming.done():
            coming.cancel()
            with contextlib.suppress(asyncio.CancelledError):
                await coming
