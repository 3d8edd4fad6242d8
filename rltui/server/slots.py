"""Which queued jobs may start: places of this machine, in the order of waiting (WIRE 3.9). Pure."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from rltui.server.table import JobRow


@dataclass(frozen=True, slots=True)
class Places:
    """What this machine has: GPUs as CUDA_VISIBLE_DEVICES names them, and how many runs without one at a time."""

    gpus: tuple[str, ...]
    cpu_jobs: int


def startable(places: Places, holding: Sequence[JobRow], waiting: Iterable[JobRow]) -> list[tuple[JobRow, list[str]]]:
    """Those that may start now, each with its GPUs.

    GPU jobs start strictly in turn, so that a large one is not overtaken for ever by small ones; jobs on the CPU
    have a queue of their own. A job that wants more GPUs than there are gets all, as the trainer does with it.
    """
    taken = {device for row in holding for device in row.devices}
    free = [device for device in places.gpus if device not in taken]
    on_cpu = sum(1 for row in holding if row.placed and not row.devices)
    found: list[tuple[JobRow, list[str]]] = []
    gpus_blocked = False
    for row in sorted(waiting, key=lambda row: (row.queued_at, row.number)):
        wanted = min(row.gpus, len(places.gpus))
        if not row.placed:
            found.append((row, []))
        elif wanted == 0:
            if on_cpu < places.cpu_jobs:
                on_cpu += 1
                found.append((row, []))
        elif not gpus_blocked and wanted <= len(free):
            found.append((row, free[:wanted]))
            free = free[wanted:]
        else:
            gpus_blocked = True
    return found
