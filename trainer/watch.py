"""Keeps the pipeline's part of status.json present, and says when somebody waits far too long."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable
from typing import Any

from trainer.recorder import Recorder
from trainer.waiting import Wait, cause, stall

LOOK_S = 2.0  # as often as status.json is written unasked


class Watch:
    """Looks every 2 s.

    Args:
        waits: the present waits.
        depths: what of status.json's `pipeline` is known (WIRE 5.4).
        quiet: whether the run is paused, so that every wait is meant.
    """

    def __init__(
        self,
        recorder: Recorder,
        waits: Callable[[], list[Wait]],
        depths: Callable[[], dict[str, Any]],
        quiet: Callable[[], bool],
    ) -> None:
        self._recorder, self._waits, self._depths, self._quiet = recorder, waits, depths, quiet
        self._stalled: Wait | None = None

    async def run(self) -> None:
        """Never returns."""
        while True:
            self.look()
            await asyncio.sleep(LOOK_S)

    def look(self) -> None:
        recorder, now = self._recorder, asyncio.get_running_loop().time()
        waits = [] if self._quiet() else self._waits()
        found = stall(waits, now, recorder.median_step_s)
        if self._stalled is not None and not any(wait.is_that(self._stalled) for wait in waits):
            ended, self._stalled = self._stalled, None
            seconds = now - ended.since
            if recorder.phase_now == "waiting":  # else something else has begun, such as a stop
                recorder.phase("training")
            recorder.event("rl.pipeline.resume", ended.words(seconds), reason=ended.words(seconds), seconds=seconds)
        longest = cause(waits)
        told = longest if longest is not None and now - longest.since >= LOOK_S else None
        waiting = None
        if told is not None:
            waiting = {"for": told.what, "on": told.on, "since": time.time() - (now - told.since)}
        if found is not None and self._stalled is None:
            self._stalled, seconds = found, now - found.since
            recorder.phase("waiting", waiting=waiting)
            words = found.words(seconds)
            recorder.event("rl.pipeline.backpressure", words, level="warning", reason=words, seconds=seconds)
        recorder.present(self._depths(), waiting)
