"""An asyncio event loop whose clock jumps to the next timer: hours of waiting take the time of their events."""

from __future__ import annotations

import asyncio
import selectors
from collections.abc import Coroutine
from typing import Any, TypeVar

T = TypeVar("T")


class Deadlock(RuntimeError):
    """Everybody waits, and no timer will wake anybody."""


class _NoSelector(selectors.SelectSelector):
    """Waits for nothing: it moves the clock."""

    def __init__(self, loop: VirtualLoop) -> None:
        super().__init__()
        self._loop = loop

    def select(self, timeout: float | None = None) -> list[Any]:
        if timeout is None:
            raise Deadlock
        self._loop.now += max(0.0, timeout)
        return []


class VirtualLoop(asyncio.SelectorEventLoop):
    """Its time begins at 0. Threads and sockets have no place in it."""

    def __init__(self) -> None:
        self.now = 0.0
        super().__init__(_NoSelector(self))
        self._clock_resolution = 1e-6  # timers that near together are of one moment, whatever their sums round to

    def time(self) -> float:
        return self.now


def run(work: Coroutine[Any, Any, T]) -> T:
    """Like asyncio.run, in virtual time. Raises Deadlock."""
    with asyncio.Runner(loop_factory=VirtualLoop) as runner:
        return runner.run(work)
