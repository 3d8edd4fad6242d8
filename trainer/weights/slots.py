"""Merged or full weights through two files, the form for an engine on a CPU (DESIGN 5).

The learner merges in fp32, casts once and writes the slot that is not being served; the engine reads that file and
swaps to it between two decode steps. Nothing live is shared: the slot in use is never written. It stays until the next
one is confirmed, for an engine that has to be started again. A file is not synced to the disk: on a local file system
it is read from the page cache, and after a crash of the machine nothing needs it.
"""

from __future__ import annotations

import shutil
import time
from pathlib import Path

from trainer.inference.engine import Engine
from trainer.learner.client import LearnerProcess
from trainer.weights.base import TIMEOUT_S, SyncReport, WeightSync, bounded


class SlotSync(WeightSync):
    """Alternates between slot_0 and slot_1 of `folder`."""

    def __init__(self, learner: LearnerProcess, engine: Engine, folder: Path, timeout_s: float = TIMEOUT_S) -> None:
        self._learner, self._engine, self._folder, self._timeout_s = learner, engine, folder, timeout_s
        self._in_use: Path | None = None

    async def start(self, version: int) -> None:
        """A server that is not ours may hold whatever an earlier run left in it."""
        if self._engine.url:
            await self.sync(version)

    async def sync(self, version: int) -> SyncReport:
        started = time.monotonic()
        if self._engine.url and self._in_use is None:
            await self._engine.check_shared(self._folder)
        slot = self._folder / ("slot_1" if self._in_use != self._folder / "slot_1" else "slot_0")
        try:
            written = await bounded(
                self._learner.sync(slot, version), self._timeout_s, f"the learner did not write v{version}"
            )
            await bounded(
                self._engine.load_weights(slot, version), self._timeout_s, f"the engine did not confirm v{version}"
            )
        except BaseException:
            shutil.rmtree(slot, ignore_errors=True)
            raise
        if self._in_use is not None:
            shutil.rmtree(self._in_use, ignore_errors=True)
        self._in_use = slot
        return SyncReport(
            version=version,
            seconds=time.monotonic() - started,
            bytes=written.bytes,
            mode="full",
            rounding_gap=written.rounding_gap,
        )

    def close(self) -> None:
        for name in ("slot_0", "slot_1"):
            shutil.rmtree(self._folder / name, ignore_errors=True)
