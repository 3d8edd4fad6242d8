"""Waiting for what another process or thread brings about, which has no event to wait for."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable
from typing import TypeVar

T = TypeVar("T")


def until(condition: Callable[[], T], limit_s: float = 60.0) -> T:
    """What `condition` gives once that is true. AssertionError: it did not come to pass in time."""
    deadline = time.monotonic() + limit_s
    while not (found := condition()):
        assert time.monotonic() < deadline, "it did not come to pass"
        time.sleep(0.02)
    return found


async def comes(condition: Callable[[], object], limit_s: float = 20.0) -> None:
    """Returns once `condition` holds. TimeoutError."""
    async with asyncio.timeout(limit_s):
        while not condition():  # noqa: ASYNC110 - the state belongs to the code under test
            await asyncio.sleep(0.005)
