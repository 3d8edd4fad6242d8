"""A synthetic run that goes on in real time: for looking at, and for benches of viewers."""

from __future__ import annotations

import os
import signal
import time
from types import FrameType
from typing import Any

import msgspec

from trainer.rundir.control import REFUSALS, ControlBox, Request
from trainer.rundir.synth_attempt import Attempt
from trainer.rundir.synth_data import SynthConfig

BEAT_S = 2.0
_SECONDS_PER_ITERATION = 15.0  # of the history, about
_PLANNED = 2_000  # iterations at least; four times the history, if that is more


class _Ended(Exception):
    """Asked to stop, by a request, a signal or the clock."""


class _LiveAttempt(Attempt):
    def __init__(self, root: str | os.PathLike[str], config: SynthConfig, rate: float, seconds: float | None) -> None:
        history = config.iterations if config.episodes else 0
        started = time.time() - _SECONDS_PER_ITERATION * history
        planned = max(_PLANNED, 4 * history)
        whole = msgspec.structs.replace(config, kind="running", episodes=planned * config.per_iteration)
        super().__init__(root, whole, attempt=1, first=1, last=planned, started=started)
        self._box = ControlBox(root)
        self._history = history * config.per_iteration
        self._rate = rate
        self._due: float | None = None
        self._end_at = None if seconds is None else time.monotonic() + seconds
        self._beat_at = 0.0
        self.stopping = False

    def wait(self, seconds: float, episodes: int = 0) -> None:
        if self.writer.next_n < self._history:
            super().wait(seconds)
            return
        if self._due is None:
            self._due = time.monotonic()
            if self._end_at is not None:
                self._end_at = max(self._end_at, self._due)
        self._due += episodes / self._rate
        while True:
            self.clock.now = time.time()
            self._look()
            left = self._due - time.monotonic()
            if left <= 0:
                return
            time.sleep(min(left, 0.2))

    def _look(self) -> None:
        if time.monotonic() >= self._beat_at:
            self._beat_at = time.monotonic() + BEAT_S
            self.writer.beat()
            for request in self._box.take():
                self._answer(request)
        if self.stopping or (self._end_at is not None and time.monotonic() >= self._end_at):
            raise _Ended

    def _answer(self, request: Request) -> None:
        """Stop and kill end it; anything else is refused, as a run of this version does."""
        about: dict[str, Any] = {"control_id": request.control_id, "action": request.action, "by": request.by}
        step = self.writer.document.step
        reason = request.refusal or (None if request.action in ("stop", "kill") else "no_such_action")
        if reason is not None:
            why = REFUSALS[reason] if request.refusal else "a synthetic run takes stop and kill alone"
            text = f"{request.action or 'the request'} was refused: {why}"
            self.writer.event("rl.control.refused", text, step=step, reason=reason, **about)
        else:
            self.writer.event("rl.control.accepted", f"{request.action} was asked", step=step, **about)
            self.writer.event("rl.control.done", f"{request.action} is under way", step=step, **about)
            self.stopping = True
        self._box.finish(request)


def live(root: str | os.PathLike[str], config: SynthConfig, *, rate: float, seconds: float | None = None) -> None:
    """Write `config.episodes` at once, then go on at `rate` episodes a second until SIGINT, SIGTERM, a request to
    stop, or for `seconds`."""
    attempt = _LiveAttempt(root, config, rate, seconds)

    def stop(number: int, frame: FrameType | None) -> None:
        attempt.stopping = True

    for number in (signal.SIGINT, signal.SIGTERM):
        signal.signal(number, stop)
    try:
        for _ in attempt.play(end="healthy"):
            pass
    except _Ended:
        attempt.writer.event("rl.job.cancelled", "Job cancelled", step=attempt.writer.document.step)
        attempt.writer.status(state="cancelled", phase="done", end_reason="stopped")
    finally:
        attempt.close()
