"""A task app that is not there for a while: nothing is started, /health is asked, and the run goes on once it answers.

Plays that met the outage are played anew and counted nowhere. The wait is bounded: after `rollout.timeout_s`, and at
least `LEAST_S`, the run ends with its cause.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable

from trainer.waiting import Wait

FIRST_S, MOST_S = 1.0, 15.0  # between two looks: doubled each time
LEAST_S = 300.0  # an app that is started again loads for minutes, however short its episodes are


class TaskAppGone(RuntimeError):
    """The task app did not come back in time. The text says for how long, and what the first play met."""


class Outage:
    """Begun by the dispatcher, sat out by `run`.

    Args:
        is_up: whether the task app is there now.
        limit_s: for how long it may be gone.
    """

    def __init__(self, is_up: Callable[[], Awaitable[bool]], limit_s: Callable[[], float]) -> None:
        self._is_up, self._limit_s = is_up, limit_s
        self._begun = asyncio.Event()
        self._since, self._met = 0.0, ""

    @property
    def going_on(self) -> bool:
        return self._begun.is_set()

    @property
    def wait(self) -> Wait | None:
        """The wait that it is."""
        if not self.going_on:
            return None
        return Wait("rollouts", "task_app", f"the task app is down: {self._met}", self._since, at_once=True)

    def begin(self, met: str) -> None:
        """met: what a play got instead of an answer."""
        if not self.going_on:
            self._since, self._met = asyncio.get_running_loop().time(), met
            self._begun.set()

    async def run(self, over: Callable[[], None]) -> None:
        """Calls `over` after each outage. Raises TaskAppGone."""
        while True:
            await self._begun.wait()
            await self._sit_out()
            self._begun.clear()
            over()

    async def _sit_out(self) -> None:
        pause, now = FIRST_S, asyncio.get_running_loop().time
        while True:
            limit = max(self._limit_s(), LEAST_S)
            left = self._since + limit - now()
            if left <= 0:
                raise TaskAppGone(f"the task app did not come back within {limit:.0f} s: {self._met}")
            await asyncio.sleep(min(pause, left))
            if await self._is_up():
                return
            pause = min(2 * pause, MOST_S)
