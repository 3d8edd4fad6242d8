"""Child processes of a smoke test: none outlives it."""

from __future__ import annotations

import asyncio
import contextlib
import os
from pathlib import Path

import rltui

GRACE_S = 5.0


def environment() -> dict[str, str]:
    """Ours, such that the child finds the packages that this very program was loaded from."""
    home, rest = str(Path(rltui.__file__).resolve().parent.parent), os.environ.get("PYTHONPATH")
    return {**os.environ, "PYTHONPATH": f"{home}{os.pathsep}{rest}" if rest else home, "PYTHONSAFEPATH": "1"}


async def sigterm_then_kill(process: asyncio.subprocess.Process, grace_s: float = GRACE_S) -> None:
    """Ends a child; returns when it is gone."""
    for send in (process.terminate, process.kill):
        if process.returncode is not None:
            return
        with contextlib.suppress(ProcessLookupError):
            send()
        with contextlib.suppress(TimeoutError):
            await asyncio.wait_for(process.wait(), grace_s)
