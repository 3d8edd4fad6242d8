"""What is known of a run whose coordinator ended before its first status: it said why, or it said nothing."""

from __future__ import annotations

import contextlib
import json
import os
import time

import msgspec

from rltui.sources.base import Json
from trainer.rundir.layout import RunPaths
from trainer.rundir.process import ProcessId

LOG = "logs/coordinator.log"  # the coordinator's stderr: words
PROTOCOL = "logs/coordinator.jsonl"  # its stdout: {type: ready, progress, result, error, ...}
TAIL_BYTES = 16_384
SILENT_S = 60.0


def early_end(paths: RunPaths) -> Json | None:
    """A `failed` status of a run that has none, if it is over; None while it may still be starting."""
    error = last_error(paths)
    if error is None and (_holder_died(paths) or (not os.path.exists(paths.lock) and _quiet_s(paths) > SILENT_S)):
        message = "its coordinator ended before it wrote a status"
        error = {"code": "process_lost", "message": message, "hint": f"read {paths.root / LOG}"}
    if error is None:
        return None
    return {"state": "failed", "phase": "done", "end_reason": "error", "error": error}


def last_error(paths: RunPaths, start: int = 0) -> Json | None:
    """{code, message, hint} of the last error line that the coordinator printed after byte `start`."""
    for line in reversed(tail(paths, PROTOCOL, start)):
        with contextlib.suppress(ValueError, AttributeError, RecursionError):
            record = json.loads(line)
            if record.get("type") == "error":
                return {name: record.get(name) for name in ("code", "message", "hint")}
    return None


def tail(paths: RunPaths, name: str, start: int = 0) -> list[str]:
    """The last lines of a log, from byte `start` on; none where there is no log."""
    try:
        text = paths.read(name, start)
    except OSError:
        return []
    return text[-TAIL_BYTES:].decode(errors="replace").splitlines()


def _holder_died(paths: RunPaths) -> bool:
    """Whether the coordinator that took the run's lock is, beyond doubt, gone and has left it behind."""
    try:
        holder = msgspec.convert(json.loads(paths.read(paths.lock.name)), ProcessId)
    except (OSError, ValueError, RecursionError):
        return False
    return holder.alive() is False


def _quiet_s(paths: RunPaths) -> float:
    """Seconds since anything was written to its logs; 0 where there are none."""
    try:
        return time.time() - max(path.stat().st_mtime for path in paths.logs.iterdir())
    except (OSError, ValueError):
        return 0.0
