"""Times whose differences are durations, whatever happens to the wall clock meanwhile."""

from __future__ import annotations

import time

_BEGAN = time.time() - time.monotonic()


def steady() -> float:
    """Epoch seconds: the wall clock as it was when this process began, gone on with by the monotonic one."""
    return _BEGAN + time.monotonic()
