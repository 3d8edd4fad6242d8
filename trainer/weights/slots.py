"""Merged or full weights through two files, the form for an engine on a CPU (DESIGN 5).

The learner merges in fp32, casts once and writes the slot that is not being served; the engine maps that file and
swaps to it between two decode steps. Nothing live is shared: the slot in use is never written. A file is on its way
for a second, so it is not synced to the disk (on a local file system it never leaves the page cache), and once the
engine has confirmed it, it is removed: what is still mapped of it stays with the engine.
"""

from __future__ import annotations

import asyncio
import shutil
import time
from collections.abc import Awaitable
from pathlib import Path
from typing import TypeVar

from trainer.inference.engine import Engine
from trainer.learner.client import LearnerProcess
from trainer.weights.base import SyncReport, WeightSync, WeightSyncError

T = TypeVar("T")

TIMEOUT_S = 600.0  # of each half: minutes of a large model on a slow disk, but never for ever


class SlotSync(WeightSync):
    """Alternates between slot_0 and slot_1 of `folder`."""

    def __init__(self, learner: LearnerProcess, engine: Engine, folder: Path, timeout_s: float = TIMEOUT_S) -> None:
        self._learner, self._engine, self._folder, self._timeout_s = learner, engine, folder, timeout_s

    async def sync(self, version: int) -> SyncReport:
        started = time.monotonic()
        slot = self._folder / f"slot_{version % 2}"
        try:
            written = await self._bounded(self._learner.sync(slot, version), f"the learner did not write v{version}")
            await self._bounded(self._engine.load_weights(slot, version), f"the engine did not confirm v{version}")
        finally:
            shutil.rmtree(slot, ignore_errors=True)
        return SyncReport(
            version=version,
            seconds=time.monotonic() - started,
            bytes=written.bytes,
            mode="full",
            rounding_gap=written.rounding_gap,
        )

    async def _bounded(self, work: Awaitable[T], failure: str) -> T:
        try:
            return await asyncio.wait_for(work, self._timeout_s)
        except TimeoutError:
            raise WeightSyncError(f"{failure} within {self._timeout_s:g} s") from None
