"""When what happened in a run: its steps and its events by time, read once and on from there."""

from __future__ import annotations

from array import array
from bisect import bisect_right
from math import nan
from typing import Any

from rltui.sources.base import Json, RunSource
from trainer.rundir.jsonl import from_iso
from trainer.taskapp.reading import finite


class Tape:
    """`extend` belongs to one thread; others may read what stands. `times`, `steps` and the like: of each update."""

    def __init__(self, source: RunSource) -> None:
        self._source = source
        self.seqs = array("q")
        self.event_times = array("d")
        self._events_cursor: Any = None
        self._states: list[tuple[float, Json]] = []  # what of the status changed, and when
        self._gaps: list[tuple[float, float]] = []  # when an attempt went on, and how long nothing ran
        self._begin_steps()

    def _begin_steps(self) -> None:
        self.times, self.steps, self.iterations = array("d"), array("q"), array("q")
        self._epochs, self._versions = array("q"), array("q")
        self._lags = array("d"), array("d")  # mean, largest
        self._metrics_cursor: Any = None

    def __len__(self) -> int:
        return len(self.times)

    def extend(self) -> None:
        """Read what is new. Unreadable."""
        more = True
        while more:
            part = self._source.metrics(self._metrics_cursor)
            if part.rewind is not None and self._metrics_cursor is not None:
                self._begin_steps()
                continue
            for row in part.rows:
                self._step(row)
            self._metrics_cursor, more = part.cursor, part.more
        more = True
        while more:
            part = self._source.events(self._events_cursor)
            for event in part.rows:
                self._event(event)
            self._events_cursor, more = part.cursor, part.more

    def at(self, time: float) -> int:
        """The last update that was done by then; -1: none."""
        return bisect_right(self.times, time) - 1

    def seq(self, time: float) -> int:
        """The number of the last event until then; 0: none."""
        i = bisect_right(self.event_times, time)
        return self.seqs[i - 1] if i else 0

    def status(self, time: float) -> Json:
        """What the status said of the run then, as far as the record tells."""
        i = self.at(time)
        found: Json = {"step": 0, "iteration": 0, "weight_version": 0, "state": "starting", "phase": "starting"}
        for when, change in self._states:
            if when > time:
                break
            found |= change
        if i >= 0:
            found |= {"step": self.steps[i], "iteration": self.iterations[i], "epoch": self._epochs[i]}
            found["weight_version"] = self._versions[i]
            mean, most = (lag[i] for lag in self._lags)
            if mean == mean:
                found["lag"] = {"mean": mean, "max": int(most) if most == most else None}
        if self.event_times:
            idle = sum(gap for when, gap in self._gaps if when <= time)
            found["elapsed_s"] = max(0.0, time - self.event_times[0] - idle)
        return found

    def _step(self, row: Json) -> None:
        step, time = row.get("step"), finite(row.get("time"))
        if "eval_step" in row or type(step) is not int or time is None:
            return
        if self.steps and step <= self.steps[-1]:  # a further line of the same step
            return
        self.times.append(max(time, self.times[-1] if self.times else 0.0))
        self.steps.append(step)
        for column, name in (
            (self.iterations, "iteration"),
            (self._epochs, "epoch"),
            (self._versions, "weight_version"),
        ):
            value = row.get(name)
            column.append(value if type(value) is int and abs(value) < 1 << 53 else 0)
        for lag, name in zip(self._lags, ("off_policy/mean", "off_policy/max"), strict=True):
            lag.append(nan if (value := finite(row.get(name))) is None else value)

    def _event(self, event: Json) -> None:
        try:
            time = from_iso(event["created_at"])
        except (KeyError, TypeError, ValueError, OverflowError):
            time = 0.0
        before = self.event_times[-1] if self.event_times else time
        time = max(time, before)
        kind, data = event.get("type"), event.get("data") or {}
        if kind == "rl.resumed":
            self._gaps.append((time, time - before))
        if type(event.get("seq")) is int:
            self.seqs.append(event["seq"])
            self.event_times.append(time)
        if change := _change(kind, data, event):
            self._states.append((time, change))


def _change(kind: Any, data: Json, event: Json) -> Json:
    """What an event says of the status from then on."""
    if kind == "rl.job.created":
        return {"state": "queued", "phase": "queued", "attempt": event.get("attempt")}
    if kind in ("rl.job.started", "rl.resumed"):
        return {"state": "running", "phase": "training", "attempt": event.get("attempt")}
    if kind == "rl.phase" and isinstance(data.get("phase"), str):
        phase = data["phase"]
        state = phase if phase in ("starting", "paused", "stopping") else "running"
        paused = {"reason": data.get("reason"), "by": None, "since": None} if phase == "paused" else None
        return {"state": state, "phase": phase, "paused": paused}
    if kind == "rl.checkpoint.saved":
        saved = {name: data.get(name) for name in ("step", "iteration", "path")}
        return {"last_checkpoint": saved, **({"best": saved} if data.get("is_best") else {})}
    return {}
