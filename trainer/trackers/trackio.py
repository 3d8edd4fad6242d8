"""Trackio, local: a database in trackers/trackio of the run folder, or where its own variables say."""

from __future__ import annotations

import os
import sys
from collections.abc import Mapping
from contextlib import redirect_stdout

from trainer.trackers.base import RunFacts, Tracker


class Trackio(Tracker):
    def __init__(self, run: RunFacts, project: str) -> None:
        os.environ.setdefault("TRACKIO_DIR", str(run.folder / "trackio"))  # read while it is imported
        import trackio

        self._trackio = trackio
        with redirect_stdout(sys.stderr):  # it prints, and our stdout is read by a program
            self._run = trackio.init(
                project,
                name=run.name,
                resume="allow",
                config={**run.config, "tags": dict(run.tags)},
                embed=False,
                auto_log_gpu=False,
                auto_log_cpu=False,
            )

    def row(self, step: int, values: Mapping[str, float]) -> None:
        self._run.log(dict(values), step=step)

    def close(self) -> None:
        with redirect_stdout(sys.stderr):
            self._trackio.finish()  # the run's own would be called once more at the exit of the process
