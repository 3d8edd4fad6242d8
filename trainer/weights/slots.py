"""Merged or full weights through two files, the form for an engine on a CPU (DESIGN 5).

The learner merges in fp32, casts once and writes the slot that is not being served; the engine maps that file and
swaps to it between two decode steps. Nothing live is shared: the slot in use is never written. A file is on its way
for a second, so it is not synced to the disk (on a local file system it never leaves the page cache), and once the
engine has confirmed it, it is removed: what is still mapped of it stays with the engine.
"""

from __future__ import annotations

import shutil
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
        try:
            written = await self._learner.sync(slot, version)
            await self._engine.load_weights(slot, version)
        finally:
            shutil.rmtree(slot, ignore_errors=True)
        return SyncReport(
            version=version,
            seconds=time.monotonic() - started,
            bytes=written.bytes,
            mode="full",
            rounding_gap=written.rounding_gap,
        )
