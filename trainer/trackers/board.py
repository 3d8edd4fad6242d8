"""The trackers of a run: means over `training.log_interval` steps, each tracker in a thread that may hang or fail."""

from __future__ import annotations

import math
import threading
import time
from collections import deque
from collections.abc import Callable, Mapping
from importlib import import_module
from queue import SimpleQueue

from trainer.config import RunConfig
from trainer.taskapp.codes import clean
from trainer.trackers.base import RunFacts, Tracker

PROJECT = "rltui"  # where the config only says true
CLOSE_S = 30.0  # for all of them together: W&B sends what it holds
CLASSES = {"tensorboard": "TensorBoard", "wandb": "WeightsAndBiases", "trackio": "Trackio"}
CAUSE_CHARS = 300

Opener = Callable[[], Tracker]


class Trackers:
    """Never raises and never waits, but in `close`."""

    def __init__(self, openers: Mapping[str, Opener] | None = None) -> None:
        """openers: by name; called in the tracker's own thread, at its first row."""
        self._workers = [_Worker(name, opener) for name, opener in (openers or {}).items()]
        self._sums: dict[str, tuple[float, int]] = {}

    def add(self, values: Mapping[str, float]) -> None:
        """Numbers of a step, to be told with the next row."""
        for name, value in values.items() if self._workers else ():
            if math.isfinite(value):
                total, count = self._sums.get(name, (0.0, 0))
                self._sums[name] = (total + value, count + 1)

    def row(self, step: int) -> None:
        """The means of what was added since the last one."""
        means, self._sums = {name: total / count for name, (total, count) in self._sums.items()}, {}
        self.send(step, means)

    def send(self, step: int, values: Mapping[str, float]) -> None:
        """A row of its own."""
        finite = {name: value for name, value in values.items() if math.isfinite(value)}
        for worker in self._workers if finite else ():
            worker.tell((step, finite))

    def failures(self) -> list[str]:
        """What has failed since the last call, one sentence for each tracker that is off now."""
        found = []
        for worker in self._workers:
            while worker.failed:
                found.append(worker.failed.popleft())
        return found

    def close(self, step: int, seconds: float = CLOSE_S) -> list[str]:
        """Tells what is left as a last row, and waits until all is written. Gives the failures."""
        self.row(step)
        until = time.monotonic() + seconds
        for worker in self._workers:
            worker.tell(None)
        late = [worker.name for worker in self._workers if not worker.ends(until)]
        lost = [f"{name} did not finish in {seconds:g} s; its last rows may be lost" for name in late]
        return self.failures() + lost


class _Worker:
    """One tracker in its thread. A failure is its end."""

    def __init__(self, name: str, opener: Opener) -> None:
        self.name, self.failed = name, deque[str]()
        self._opener = opener
        self._rows: SimpleQueue[tuple[int, Mapping[str, float]] | None] = SimpleQueue()
        self._thread = threading.Thread(target=self._run, name=f"tracker-{name}", daemon=True)

    def tell(self, row: tuple[int, Mapping[str, float]] | None) -> None:
        if self._thread.ident is None and row is not None:
            self._thread.start()
        if self._thread.is_alive():  # nobody reads what a failed one is told
            self._rows.put(row)

    def ends(self, until: float) -> bool:
        if self._thread.ident is not None:
            self._thread.join(max(0.0, until - time.monotonic()))
        return not self._thread.is_alive()

    def _run(self) -> None:
        try:
            tracker = self._opener()
            while (row := self._rows.get()) is not None:
                tracker.row(*row)
            tracker.close()
        except (Exception, SystemExit) as error:  # whatever a library does
            cause = clean(f"{type(error).__name__}: {error}", CAUSE_CHARS)
            self.failed.append(f"{self.name} failed and is off for the rest of the run: {cause}")


def trackers_of(config: RunConfig, run: RunFacts) -> Trackers:
    """Those that [logging] switches on."""

    def opener(name: str, wanted: bool | str) -> Opener:
        project = wanted if isinstance(wanted, str) else PROJECT
        return lambda: getattr(import_module(f"trainer.trackers.{name}"), CLASSES[name])(run, project)

    logging = config.logging
    asked = {"tensorboard": logging.tensorboard, "wandb": logging.wandb, "trackio": logging.trackio}
    return Trackers({name: opener(name, wanted) for name, wanted in asked.items() if wanted})
