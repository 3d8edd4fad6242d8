"""Waiting for what another process or thread brings about, which has no event to wait for."""

from __future__ import annotations

import asyncio
import os
import random
import socket
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


def free_port() -> int:
    """One for a server that is started by its number.

    None of those that the kernel gives to whoever asks for any, nor of those that tests of the SDK count from: another
    worker's sockets do not take it before the server does.
    """
    chance = random.Random(os.urandom(8))  # hypothesis seeds the one that all share
    while True:
        with socket.socket() as probe:
            try:
                probe.bind(("127.0.0.1", chance.randrange(25_000, 32_000)))
            except OSError:
                continue
            return int(probe.getsockname()[1])


async def comes(condition: Callable[[], object], limit_s: float = 60.0) -> None:
    """Returns once `condition` holds. TimeoutError."""
    async with asyncio.timeout(limit_s):
        while not condition():  # noqa: ASYNC110 - the state belongs to the code under test
            await asyncio.sleep(0.005)
