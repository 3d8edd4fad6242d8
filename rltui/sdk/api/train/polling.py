"""When waiting for a job ends: what `poll_until_complete` and `wait` have in common."""

from __future__ import annotations

import asyncio
import logging
import time
from collections.abc import Callable
from typing import Any

from rltui.backend import BackendError
from rltui.sources.base import TERMINAL

log = logging.getLogger(__name__)

MOST_FAILURES = 10  # in a row
LOOK_S = 0.2


def sleep(seconds: float) -> None:
    """time.sleep; called from a coroutine it ends when its task is cancelled, by raising CancelledError: Ctrl-C is
    such a cancel under asyncio.run, and while the event loop is held up nothing else would tell of it.
    """
    try:
        task = asyncio.current_task()
    except RuntimeError:
        task = None
    if task is None:
        time.sleep(seconds)
        return
    end = time.monotonic() + seconds
    while (left := end - time.monotonic()) > 0 and not task.cancelling():
        time.sleep(min(LOOK_S, left))
    if task.cancelling():
        raise asyncio.CancelledError


class Polling:
    def __init__(
        self, job_id: str, timeout_s: float, on_status: Callable[[dict[str, Any]], object] | None = None
    ) -> None:
        self._job_id, self._timeout_s, self._on_status = job_id, timeout_s, on_status
        self._end = time.monotonic() + timeout_s
        self._failures = 0
        self._status: object = "unknown"

    def take(self, answer: dict[str, Any] | BackendError) -> dict[str, Any] | None:
        """The job's last status, once it is that. Raises BackendError, and TimeoutError when the time is over."""
        if isinstance(answer, BackendError):
            self._failures += 1
            if answer.status == 404 or self._failures >= MOST_FAILURES:
                raise answer
        else:
            self._failures, self._status = 0, answer.get("status")
            self._tell(answer)
            if self._status in TERMINAL:
                return answer
        if time.monotonic() >= self._end:
            raise TimeoutError(
                f"Job {self._job_id} did not complete within {self._timeout_s:g} s. Current status: {self._status}"
            )
        return None

    def pause(self, interval_s: float) -> float:
        """Seconds until the next question: `interval_s`, or what is left."""
        return max(0.0, min(interval_s, self._end - time.monotonic()))

    def _tell(self, status: dict[str, Any]) -> None:
        if self._on_status is None:
            return
        try:
            self._on_status(status)
        except Exception as error:  # the caller's code: its fault ends no wait
            log.warning("on_status raised %s: %s", type(error).__name__, error)
