"""Full weights from device to device: the learner sends, and every replica takes, inside one update call of vLLM.

Over NCCL rank 0 of the learner and the workers of all replicas form one communicator of 1 + replicas x tensor_parallel.
It is opened before the first sync, and again whenever a server is another one. Where it cannot be opened, weights go
through files from then on. A sending that breaks leaves both sides waiting for each other, so it ends the run.
"""

from __future__ import annotations

import shutil
import time
from collections.abc import Awaitable, Callable
from functools import partial
from pathlib import Path
from typing import Any, Literal

from trainer.inference.engine import Engine, EngineError
from trainer.inference.vllm.engine import VllmEngine
from trainer.learner.client import LearnerError, LearnerProcess, SendResult
from trainer.placing.base import PlacingError
from trainer.waiting import together
from trainer.weights.base import TIMEOUT_S, SyncReport, WeightSync, WeightSyncError, bounded
from trainer.weights.slots import SlotSync

Way = Literal["nccl", "ipc"]
CONNECT_S = 330.0  # vLLM's ends wait for each other for 300 s


class DirectSync(WeightSync):
    """`tell` hears, once, why weights go through files after all. `meet` gives an address and a free port of the node
    of rank 0; it may raise PlacingError."""

    def __init__(
        self,
        way: Way,
        learner: LearnerProcess,
        engine: Engine,
        folder: Path,
        tell: Callable[[str], object],
        meet: Callable[[], Awaitable[tuple[str, int]]],
        timeout_s: float = TIMEOUT_S,
    ) -> None:
        self._way: Way | None = way
        self._learner, self._engine, self._folder = learner, engine, folder
        self._tell, self._meet, self._timeout_s = tell, meet, timeout_s
        self._files = SlotSync(learner, engine, folder, timeout_s)
        self._layout: dict[str, Any] = {}
        self._connected: list[tuple[VllmEngine, int]] = []
        for number, replica in enumerate(self._replicas):
            replica.fetch = partial(self._fetch, number)

    @property
    def _replicas(self) -> list[VllmEngine]:
        return [replica for replica in self._engine.replicas if isinstance(replica, VllmEngine)]

    async def sync(self, version: int) -> SyncReport:
        started = time.monotonic()
        if self._way is not None and self._connected != self._servers():
            await self._connect_or_fall_back()
        if self._way is None:
            return await self._files.sync(version)
        try:
            sent = await bounded(self._send(version), self._timeout_s, f"v{version} was not sent to the engine")
        except (EngineError, LearnerError) as error:
            raise WeightSyncError(f"sending weight version {version} to the engine broke: {error}") from error
        return SyncReport(
            version=version,
            seconds=time.monotonic() - started,
            bytes=sent.bytes,
            mode="full",
            rounding_gap=sent.rounding_gap,
        )

    async def _send(self, version: int) -> SendResult:
        sent: SendResult
        if self._way == "ipc":
            sent = await self._learner.send()
            await self._engine.receive(sent.update, version)
            return sent
        sent, _ = await together(self._learner.send(), self._engine.receive(self._layout, version))
        return sent

    def _servers(self) -> list[tuple[VllmEngine, int]]:
        return [(replica, replica.starts) for replica in self._replicas]

    async def _connect_or_fall_back(self) -> None:
        try:
            await bounded(self._connect(), CONNECT_S, "learner and engine did not meet")
        except (EngineError, LearnerError, PlacingError, WeightSyncError) as error:
            self._way = None
            self._tell(f"weights go through files: they cannot be sent from device to device ({error})")

    async def _connect(self) -> None:
        """The learner is asked first whether it can: a server would wait minutes for one that cannot."""
        self._layout = await self._learner.layout()
        if self._way == "ipc":
            await self._learner.connect("ipc", "", 0, 0)
            await together(*(replica.join("ipc", {"packed": False}) for replica in self._replicas))
        else:
            address, port = await self._meet()
            meet = {"master_address": address, "master_port": port}
            first, joins = 1, []
            world_size = 1 + sum(replica.workers for replica in self._replicas)
            for replica in self._replicas:
                options = meet | {"rank_offset": first, "world_size": world_size, "packed": True}
                joins.append(replica.join("nccl", options))
                first += replica.workers
            await together(self._learner.connect("nccl", address, port, world_size), *joins)
        self._connected = self._servers()

    async def _fetch(self, number: int, version: int) -> Path:
        """Files for a server that starts again: what the learner has now, which is `version` or newer. Lag is counted
        by `version`, so never too low."""
        folder = self._folder / f"restart_{number}"
        try:
            await bounded(self._learner.sync(folder, version), self._timeout_s, "the learner did not write its weights")
        except (LearnerError, WeightSyncError) as error:
            raise EngineError(str(error)) from None
        return folder

    def close(self) -> None:
        self._files.close()
        for folder in self._folder.glob("restart_*"):
            shutil.rmtree(folder, ignore_errors=True)
