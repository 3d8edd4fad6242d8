"""The numbers that clients of a job's events draw: `rl.metrics`, a few names, several points an event (WIRE 3.5).

All numbers are in metrics.jsonl, and a job server gives them as points. These are for who follows the events alone.
"""

from __future__ import annotations

import math
import time
from collections.abc import Callable, Mapping
from typing import Any

BATCH, BATCH_S = 16, 1.0  # points of an event at most; how long the first of them waits
# Of a run's events: by name the phase that clients file it under.
NAMES = {
    "gspo/loss": "train",
    "ppo/value_loss": "train",
    "optim/grad_norm": "train",
    "optim/lr": "train",
    "reward/mean": "rollout",
    "reward/std": "rollout",
    "length/mean": "rollout",
    "eval/reward_mean": "eval",
    "eval/reward_std": "eval",
}

Point = dict[str, Any]


class Points:
    """`send` is given 1 to 16 points: {name, value, phase, step, iteration, epoch}."""

    def __init__(self, send: Callable[[list[Point]], None], clock: Callable[[], float] = time.monotonic) -> None:
        self._send, self._clock = send, clock
        self._waiting: list[Point] = []
        self._since = 0.0

    def add(self, values: Mapping[str, float], *, step: int, iteration: int, epoch: int) -> None:
        for name, phase in NAMES.items():
            value = values.get(name)
            if value is None or not math.isfinite(value):
                continue
            if not self._waiting:
                self._since = self._clock()
            place = {"step": step, "iteration": iteration, "epoch": epoch}
            self._waiting.append({"name": name, "value": float(value), "phase": phase, **place})
            if len(self._waiting) == BATCH:
                self.flush()
        self.due()

    def due(self) -> None:
        """Send what has waited long enough."""
        if self._waiting and self._clock() - self._since >= BATCH_S:
            self.flush()

    def flush(self) -> None:
        waiting, self._waiting = self._waiting, []
        if waiting:
            self._send(waiting)
