"""Pause, one step, stop: between the turns of the episodes that are being played."""

from __future__ import annotations

import asyncio


class Stopped(Exception):
    """The smoke test was stopped by who looks at it."""


class Control:
    """Shared by who plays and who watches."""

    def __init__(self) -> None:
        self.paused = False
        self.stopped = asyncio.Event()
        self._steps = 0
        self._waiting: list[asyncio.Future[None]] = []

    def pause(self) -> None:
        """Before the next turn."""
        self.paused = True

    def resume(self) -> None:
        self.paused = False
        self._wake()

    def step(self) -> None:
        """One turn more, then paused."""
        self.paused = True
        self._steps += 1
        self._wake()

    def stop(self) -> None:
        """After the current call."""
        self.stopped.set()
        self._wake()

    def check(self) -> None:
        """Raises Stopped once it was asked for."""
        if self.stopped.is_set():
            raise Stopped

    async def turn(self) -> None:
        """Waits for leave to go on with the next turn. Raises Stopped."""
        while True:
            self.check()
            if not self.paused:
                return
            if self._steps:
                self._steps -= 1
                return
            waiting: asyncio.Future[None] = asyncio.get_running_loop().create_future()
            self._waiting.append(waiting)
            await waiting

    def _wake(self) -> None:
        for waiting in self._waiting:
            if not waiting.done():
                waiting.set_result(None)
        self._waiting.clear()
