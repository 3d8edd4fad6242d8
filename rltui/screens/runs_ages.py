"""The list of runs, whose ages go on where nothing else changes."""

from __future__ import annotations

import time

from rltui.screens.runs_line import age
from rltui.screens.runs_list import RunRows
from rltui.widgets.virtual_list import VirtualList

LOOK_S = 1.0  # between two looks at the ages


class RunList(VirtualList):
    """Once a second the lines in sight whose age looks otherwise are drawn again."""

    def __init__(self, rows: RunRows, *, id: str) -> None:
        super().__init__(rows, id=id)
        self._runs = rows

    def on_mount(self) -> None:
        self.set_interval(LOOK_S, self.grow_old)

    def grow_old(self) -> None:
        """Ages are counted to this moment."""
        if not self.screen.is_current:
            return
        runs, before, now = self._runs, self._runs.now, time.time()
        runs.now = now
        for i in range(self.top, min(self.top + self.page_size, len(runs))):
            at = runs.row(i).updated or runs.row(i).created
            if at and age(now - at) != age(before - at):
                self.refresh_row(i)
