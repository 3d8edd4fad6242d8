"""What is worst about a run, by the end of its metrics alone: for a list of many runs."""

from __future__ import annotations

import time
from math import inf

from rltui.doctor.bands import Table
from rltui.doctor.doctor import Doctor, Finding, speaking
from rltui.doctor.record import Json, Record
from rltui.doctor.rules import RULES
from rltui.model.metrics import MetricStore

LINES = 30  # of the metrics: 20 steps with what stands between them
# What rules read of a line. Evaluations go by steps of their own, and say nothing at a glance.
_READ = {"step", "iteration", "time"} | {
    name for rule in RULES for name in rule.metrics if not name.startswith("eval/")
}


def glance(tail: bytes, status: Json, table: Table) -> Finding | None:
    """The worst finding; None: all is quiet. `tail`: the last lines of metrics.jsonl, from a whole line on.

    What compares with the start of the run, or needs its config, has no say here.
    """
    from trainer.rundir.jsonl import decode_object

    lines: list[Json] = []
    attempt: object = None
    begun = first = inf  # the least steps of the attempts after the one that is read, and with it
    for line in reversed(tail[: tail.rfind(b"\n") + 1].split(b"\n")):
        try:
            found = decode_object(line)
        except ValueError:
            continue
        step = found.get("step")
        if type(step) is not int:
            continue
        if found.get("attempt") != attempt:
            attempt, begun = found.get("attempt"), first
        first = min(first, step)
        if step < begun:  # else a resume threw it away
            lines.append({name: value for name, value in found.items() if name in _READ})
        if len(lines) == LINES:
            break
    metrics = MetricStore()
    metrics.add(reversed(lines))
    record = Record(metrics.series, metrics.labels["time"], metrics.step, status, whole=False, now=time.time())
    doctor = Doctor(table.values, look_back=1)
    return next(iter(speaking(doctor.examine(record))), None)
