"""Ending a coordinator that does not end by itself."""

from __future__ import annotations

import contextlib
import os
import signal
import time
from collections.abc import Iterable

from trainer.rundir.process import ProcessId

GRACE_S = 10.0  # WIRE 5.8: SIGTERM twice, SIGKILL to the group after this


def kill_leader(leader: ProcessId, children: Iterable[ProcessId] = ()) -> bool:
    """Kill a coordinator of this machine and what it started. False: it did not run here any more.

    Every process is touched only while it is, beyond doubt, the one that was recorded. The children get their
    SIGTERM from the coordinator, or from the kernel at its death; what is left after the grace is killed.
    """
    children = list(children)
    was_alive = bool(leader.alive())
    for _ in range(2):
        leader.signal(signal.SIGTERM)
        time.sleep(0.2)
    deadline = time.monotonic() + GRACE_S
    while time.monotonic() < deadline and any(process.alive() for process in [leader, *children]):
        time.sleep(0.1)
    if leader.alive():
        with contextlib.suppress(ProcessLookupError, PermissionError):
            if os.getpgid(leader.pid) == leader.pid:
                os.killpg(leader.pid, signal.SIGKILL)
            else:
                leader.signal(signal.SIGKILL)
    for child in children:
        child.signal(signal.SIGKILL)
    return was_alive
