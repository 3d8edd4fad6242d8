"""How new weights reach the engine. A transport is a file beside this one."""

from __future__ import annotations

import asyncio
from abc import ABC, abstractmethod
from collections.abc import Awaitable
from dataclasses import dataclass
from typing import Any, Literal, TypeVar

T = TypeVar("T")

TIMEOUT_S = 1200.0  # of each half: minutes of a large model on a slow disk, but never for ever


class WeightSyncError(RuntimeError):
    """New weights did not reach the engine; the earlier version goes on serving."""

    code = "engine_failed"  # a word of the record (WIRE 5.2)
    hint = "see logs/inference-0.log"


@dataclass(frozen=True, slots=True)
class CanaryFigures:
    """In nats, of the replica that did worst."""

    slope: float | None
    residual: float
    noise: float
    undecided: int  # checks in a row that could not tell
    failed: int  # checks that failed, so far


@dataclass(frozen=True, slots=True)
class SyncReport:
    """New weights that every replica serves, and what that took."""

    version: int
    seconds: float
    bytes: int
    mode: str  # lora, full
    rounding_gap: float
    verified: bool | Literal["undecided"] | None = None  # None: no canary was due
    canary: CanaryFigures | None = None
    resent: bool = False  # a first canary failed; this is the second sending, which passed

    def facts(self) -> dict[str, Any]:
        """What its event tells (WIRE 3.5)."""
        canary = self.canary
        return {
            "version": self.version,
            "seconds": self.seconds,
            "bytes": self.bytes,
            "mode": self.mode,
            "rounding_gap": self.rounding_gap,
            "verified": self.verified,
            "canary": None
            if canary is None
            else {"slope": canary.slope, "residual": canary.residual, "noise": canary.noise},
        }

    def metrics(self) -> dict[str, float]:
        """By the names of DESIGN 7; empty if no canary was due."""
        if self.canary is None:
            return {}
        slope = {} if self.canary.slope is None else {"canary/slope": self.canary.slope}
        return slope | {
            "canary/residual": self.canary.residual,
            "canary/undecided": float(self.canary.undecided),
            "canary/failed": float(self.canary.failed),
        }


class WeightSyncMismatch(WeightSyncError):
    """The engine confirmed the weights, twice, and does not run them. `report`: of the second sending."""

    code = "weight_sync_mismatch"
    hint = "if it comes back, try another training.weight_sync.mode, and see D18 of rltui doctor RUN"

    def __init__(self, message: str, report: SyncReport) -> None:
        super().__init__(message)
        self.report = report


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

    def canary_state(self) -> dict[str, Any] | None:
        """What a resumed run's canary has to know, as JSON; None where there is nothing."""
        return None

    def restore_canary(self, state: dict[str, Any] | None) -> None:  # noqa: B027 - most transports check nothing
        """Before the first call of `sync`: what `canary_state` gave."""

    def close(self) -> None:  # noqa: B027 - not every transport leaves files
        """Removes what is left on disk. Idempotent."""


async def bounded(work: Awaitable[T], timeout_s: float, failure: str) -> T:
    """The result of `work`. WeightSyncError(failure) once the time is over."""
    try:
        return await asyncio.wait_for(work, timeout_s)
    except TimeoutError:
        raise WeightSyncError(f"{failure} within {timeout_s:g} s") from None
