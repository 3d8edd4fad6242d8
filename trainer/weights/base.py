"""How new weights reach the engine. A transport is a file beside this one."""

from __future__ import annotations

import asyncio
from abc import ABC, abstractmethod
from collections.abc import Awaitable
from dataclasses import dataclass
from typing import TypeVar

T = TypeVar("T")

TIMEOUT_S = 1200.0  # of each half: minutes of a large model on a slow disk, but never for ever


class WeightSyncError(RuntimeError):
    """New weights did not reach the engine; the earlier version goes on serving."""


@dataclass(frozen=True, slots=True)
class SyncReport:
    version: int
    seconds: float
    bytes: int
    mode: str  # lora, full
    rounding_gap: float


class WeightSync(ABC):
    """Brings the learner's present weights to every engine replica.

    Whatever a transport puts on disk stays until a newer version is confirmed: an engine that is started again loads
    it from there.
    """

    async def start(self, version: int) -> None:  # noqa: B027 - most transports have nothing to prepare
        """Before the first call: what the engine needs beyond the start weights. Raises as `sync`."""

    @abstractmethod
    async def sync(self, version: int) -> SyncReport:
        """Returns once every replica serves `version`. Raises WeightSyncError, LearnerError, EngineError."""

    def close(self) -> None:  # noqa: B027 - not every transport leaves files
        """Removes what is left on disk. Idempotent."""


async def bounded(work: Awaitable[T], timeout_s: float, failure: str) -> T:
    """The result of `work`. WeightSyncError(failure) once the time is over."""
    try:
        return await asyncio.wait_for(work, timeout_s)
    except TimeoutError:
        raise WeightSyncError(f"{failure} within {timeout_s:g} s") from None
