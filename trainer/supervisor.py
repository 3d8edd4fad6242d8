"""What goes on beside the pipeline: the heartbeat, requests from viewers, and samples of the machine."""

from __future__ import annotations

import asyncio
import os
import shutil
import time
from collections import Counter
from collections.abc import Callable, Sequence
from typing import Any

import psutil

from trainer.control_room import ControlRoom
from trainer.gpus import Gpus, metrics
from trainer.recorder import Recorder
from trainer.rundir.process import start_time_of
from trainer.rundir.status import Child, Gpu

BEAT_S, CONTROL_S, SYSTEM_S = 2.0, 0.5, 10.0
LOGS = {"learner": "learner-0", "torchrun": "learner-0", "reference": "reference-0"}  # here all ranks share one
Process = tuple[str, int, str]  # role, pid, name of its node; empty: this machine


class Supervisor:
    """Runs until cancelled. `peak_rss_bytes` is the peak of the memory of all our processes together."""

    def __init__(
        self,
        recorder: Recorder,
        children: Callable[[], Sequence[Process]],
        present: Callable[[], dict[str, Any]],
        room: ControlRoom,
        gpus: Gpus,
    ) -> None:
        self._recorder, self._children, self._present, self._room = recorder, children, present, room
        self._gpus = gpus
        self.peak_rss_bytes = 0

    async def run(self) -> None:
        next_beat = next_sync = 0.0
        next_system = time.monotonic() + SYSTEM_S
        psutil.cpu_percent()  # the first call only sets the mark that the next one measures from
        asked: asyncio.Task[list[Gpu]] | None = None  # the driver may be slow, which must not stop the heart
        while True:
            now = time.monotonic()
            self._room.look()
            children = self._children()
            rss = resident_bytes([os.getpid(), *(pid for _, pid, node in children if not node)])
            self.peak_rss_bytes = max(self.peak_rss_bytes, rss)
            if now >= next_sync:
                self._recorder.sync()
                next_sync = now + 1.0
            if now >= next_beat:
                self._recorder.beat(child_records(children), self._present())
                next_beat = now + BEAT_S
            if now >= next_system and asked is None:
                asked = asyncio.ensure_future(asyncio.to_thread(self._gpus.read))
                next_system = now + SYSTEM_S
            if asked is not None and asked.done():
                self._sample(rss, asked.result())
                asked = None
            await asyncio.sleep(CONTROL_S)

    def _sample(self, rss: int, gpus: Sequence[Gpu]) -> None:
        recorder = self._recorder
        if gpus:
            recorder.writer.note(pipeline={"gpus": list(gpus)})
        recorder.metrics(
            {
                "system/cpu": psutil.cpu_percent() / 100.0,
                "system/rss": float(rss),
                "system/disk_free_gib": shutil.disk_usage(recorder.writer.paths.root).free / 2**30,
                **metrics(gpus),
            },
            iteration=recorder.iteration_of(recorder.step),
        )


def child_records(children: Sequence[Process]) -> list[Child]:
    """Role and identity of each child that runs, for status.json."""
    records: list[Child] = []
    numbers: Counter[str] = Counter()  # of ranks and replicas
    for role, pid, node in children:
        rank = numbers[role]
        numbers[role] += 1
        log = f"inference-{rank}" if role == "inference" else LOGS.get(role, role)
        if node:
            log = f"{role}-{rank}"
            records.append(Child(role=role, rank=rank, pid=pid, start_time=0, host=node, log=f"logs/{log}.log"))
        elif (started := start_time_of(pid)) is not None:
            records.append(Child(role=role, rank=rank, pid=pid, start_time=started, log=f"logs/{log}.log"))
    return records


def resident_bytes(pids: Sequence[int]) -> int:
    """Resident memory of these processes together; those that are gone count nothing."""
    page, total = os.sysconf("SC_PAGE_SIZE"), 0
    for pid in pids:
        try:
            with open(f"/proc/{pid}/statm") as file:
                total += int(file.read().split()[1]) * page
        except OSError:
            continue
    return total
