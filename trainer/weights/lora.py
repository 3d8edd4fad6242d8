"""Adapters through files: a folder per version, as the engine's prefix cache tells versions apart by (WIRE 5.9).

The engine puts the new adapter in the place of the earlier one, for running calls too, or serves it under a name of
its own (`VllmSettings.versioned`). Either way every call goes through an adapter, from version 0 on: a call that began
on the bare base model could not be given one.
"""

from __future__ import annotations

import shutil
import time
from pathlib import Path

from trainer.inference.engine import Engine, EngineError
from trainer.learner.client import LearnerProcess
from trainer.weights.base import TIMEOUT_S, SyncReport, WeightSync, bounded


class LoraSync(WeightSync):
    """Writes `folder`/v000012 and removes those that no call samples from. What is sent a second time has a folder of
    its own (v000012r): the first one stays until that is confirmed."""

    def __init__(self, learner: LearnerProcess, engine: Engine, folder: Path, timeout_s: float = TIMEOUT_S) -> None:
        self._learner, self._engine, self._folder, self._timeout_s = learner, engine, folder, timeout_s
        self._sent: dict[int, Path] = {}  # by version, of what may be in use

    async def start(self, version: int) -> None:
        try:
            await self.sync(version)
        except EngineError as error:
            if not self._engine.url:
                raise
            raise EngineError(f"{error}; the server must see {self._folder} under that path") from error

    async def sync(self, version: int) -> SyncReport:
        started = time.monotonic()
        folder = self._folder / f"v{version:06d}"
        if folder == self._sent.get(version):
            folder = folder.with_name(f"{folder.name}r")
        shutil.rmtree(folder, ignore_errors=True)
        try:
            written = await bounded(
                self._learner.sync(folder, version, "lora"),
                self._timeout_s,
                f"the learner did not write the adapter v{version}",
            )
            await bounded(
                self._engine.load_weights(folder, version), self._timeout_s, f"the engine did not confirm v{version}"
            )
        except BaseException:
            shutil.rmtree(folder, ignore_errors=True)
            raise
        self._sent[version] = folder
        self._remove_all_but(self._engine.serving_versions)
        return SyncReport(
            version=version, seconds=time.monotonic() - started, bytes=written.bytes, mode="lora", rounding_gap=0.0
        )

    def close(self) -> None:
        self._remove_all_but(frozenset())

    def _remove_all_but(self, versions: frozenset[int]) -> None:
        self._sent = {version: folder for version, folder in self._sent.items() if version in versions}
        for folder in self._folder.glob("v[0-9]*"):
            if folder not in self._sent.values():
                shutil.rmtree(folder, ignore_errors=True)
