"""Which queued jobs may start: places of this machine, in the order of waiting (WIRE 3.9). Pure."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from rltui.server.table import JobRow
from trainer.rundir.jsonl import Json


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
    for row in sorted(waiting, key=_turn):
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


def position(row: JobRow, waiting: Iterable[JobRow]) -> int:
    """The place of a job among those that wait for the same: GPUs, the CPU, or nothing of this machine; 1 is next."""
    return 1 + sum(_turn(other) < _turn(row) for other in waiting if _queue(other) == _queue(row))


def in_queue(status: Json, place: int | None) -> Json:
    """The status of a job that waits, with what for. `place`: its position in the queue; None: it waits not."""
    if place is None:
        return status
    return {**status, "waiting": {"for": "queue", "on": f"its turn, {place - 1} before it", "since": None}}


def _turn(row: JobRow) -> tuple[float, int]:
    return row.queued_at, row.number


def _queue(row: JobRow) -> tuple[bool, bool]:
    return row.placed, row.gpus > 0
