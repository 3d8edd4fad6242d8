"""How new weights reach the engine. A transport is a file beside this one."""

from __future__ import annotations

from abc import ABC, abstractmethod
from dataclasses import dataclass


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
    """Brings the learner's present weights to every engine replica."""

    @abstractmethod
    async def sync(self, version: int) -> SyncReport:
        """Returns once every replica serves `version`. Raises WeightSyncError, LearnerError, EngineError."""
