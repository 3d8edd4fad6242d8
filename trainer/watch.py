"""Keeps the pipeline's part of status.json present, and says when somebody waits far too long."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable

from trainer.present import Present
from trainer.recorder import Recorder
from trainer.waiting import Wait, stall, told

LOOK_S = 2.0  # as often as status.json is written unasked


class Watch:
    """Looks every 2 s.

    Args:
        quiet: whether the run is paused, so that every wait is meant.
    """

    def __init__(
        self,
        recorder: Recorder,
        present: Present,
        quiet: Callable[[], bool],
    ) -> None:
        self._recorder, self._present, self._quiet = recorder, present, quiet
        self._stalled: Wait | None = None
        self._moved = 0.0  # when the last stall of all ended

    async def run(self) -> None:
        """Never returns."""
        while True:
            self.look()
            await asyncio.sleep(LOOK_S)

    def look(self) -> None:
        recorder, now = self._recorder, asyncio.get_running_loop().time()
        waits = [] if self._quiet() else self._present.waits()
        works = [] if self._quiet() else self._present.works()
        if self._stalled is not None and not any(wait.is_that(self._stalled) for wait in [*waits, *works]):
            ended, self._stalled = self._stalled, None
            self._moved, seconds = (now if ended.at_once else self._moved), now - ended.since
            recorder.event("rl.pipeline.resume", ended.words(now), reason=ended.words(now), seconds=seconds)
        found = stall([*waits, *works], now, recorder.median_step_s, self._moved)
        first, waiting = found if found in works else told(waits), None
        if first is not None and (found is not None or now - first.since >= LOOK_S):
            waiting = {"for": first.what, "on": first.on, "since": time.time() - (now - first.since)}
        if found is not None and (self._stalled is None or found.at_once > self._stalled.at_once):
            self._stalled = found
            if recorder.phase_now != "stopping":
                recorder.phase("waiting", waiting=waiting)
            chain = [found, *(wait for wait in [*waits, *works, *self._present.replies()] if wait is not found)]
            words = "; ".join(wait.words(now) for wait in chain)
            seconds = now - found.since
            recorder.event("rl.pipeline.backpressure", words, level="warning", reason=words, seconds=seconds)
        elif self._stalled is None and recorder.phase_now == "waiting":
            recorder.phase("training")
        recorder.present(self._present.depths(), waiting)
