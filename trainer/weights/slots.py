"""Merged or full weights through two files, the form for an engine on a CPU (DESIGN 5).

The learner merges in fp32, casts once and writes the slot that is not being served; the engine maps that file and
swaps to it between two decode steps. Nothing live is shared: the slot in use is never written. The files are never
synced to the disk on purpose, so on a local file system they live in the page cache.
"""

from __future__ import annotations

import time
from pathlib import Path

from trainer.inference.engine import Engine
from trainer.learner.client import LearnerProcess
from trainer.weights.base import SyncReport, WeightSync


class SlotSync(WeightSync):
    """Alternates between slot_0 and slot_1 of `folder`."""

    def __init__(self, learner: LearnerProcess, engine: Engine, folder: Path) -> None:
        self._learner, self._engine, self._folder = learner, engine, folder

    async def sync(self, version: int) -> SyncReport:
        started = time.monotonic()
        slot = self._folder / f"slot_{version % 2}"
        written = await self._learner.sync(slot, version)
        await self._engine.load_weights(slot, version)
        return SyncReport(
            version=version,
            seconds=time.monotonic() - started,
            bytes=written.bytes,
            mode="full",
            rounding_gap=written.rounding_gap,
        )
