"""Loaded by Python at its start: its wall clock runs off by the seconds in a file, which may change at any time."""

import os
import time

_OFFSET = os.environ.get("RLTUI_FAULTS_CLOCK")


def _offset() -> float:
    try:
        with open(_OFFSET) as file:  # type: ignore[arg-type]
            return float(file.read())
    except (OSError, ValueError):
        return 0.0


if _OFFSET:
    _time, _time_ns = time.time, time.time_ns
    time.time = lambda: _time() + _offset()
    time.time_ns = lambda: _time_ns() + int(_offset() * 1e9)
