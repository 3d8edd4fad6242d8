"""The app without the thread that reads the open run: what it shows then changes by keys alone."""

from __future__ import annotations

import asyncio

from textual.pilot import Pilot

from rltui.app import RltuiApp
from tests.tui.app_driver import WAIT_S


async def at_rest(app: RltuiApp, pilot: Pilot[None]) -> None:
    """Nothing more comes of the run that is open, and what came is shown."""
    watcher = app.opened and app.opened._watcher
    assert watcher is not None
    watcher.stop()
    await asyncio.to_thread(watcher.join, WAIT_S)
    assert not watcher.is_alive()
    await pilot.pause()
