"""The past of the run that is open: a model of its own that is moved in time, and reads nothing by itself."""

from __future__ import annotations

from math import inf
from typing import TYPE_CHECKING

from rltui.opened import OpenRun

if TYPE_CHECKING:
    from rltui.model.run import RunModel
    from rltui.sources.past import PastSource

NO_PERIOD_S = 3600.0  # nothing happens in the past


class PastRun(OpenRun):
    """`place` counts the updates of the optimizer: 0 before the first, `last` with all of them done."""

    def __init__(self, where: str) -> None:
        super().__init__(where, period_s=NO_PERIOD_S, did=lambda command, answer: None)
        self.source: PastSource | None = None  # set by the watcher's thread, then only read
        self._place: int | None = None  # None: the end

    @property
    def read(self) -> bool:
        """Whether `last` is known."""
        return self.model is not None and self.model.asked

    @property
    def last(self) -> int:
        return len(self.source.tape) if self.source is not None else 0

    @property
    def place(self) -> int:
        return self.last if self._place is None else min(self._place, self.last)

    @property
    def time(self) -> float | None:
        """Epoch seconds of where it is; None: there is nothing yet."""
        if self.source is None or not self.last:
            return None
        return self.source.tape.times[max(0, self.place - 1)]

    @property
    def step(self) -> int:
        return self.source.tape.steps[self.place - 1] if self.source is not None and self.place else 0

    @property
    def last_step(self) -> int:
        return self.source.tape.steps[-1] if self.source is not None and self.last else 0

    def move(self, place: int) -> bool:
        """Go to the time of an update. False: it is there already."""
        place = max(0, min(self.last, place))
        if self.source is None or place == self.place:
            return False
        self._place = None if place == self.last else place
        self.look_now()
        return True

    def _open(self) -> RunModel:
        from rltui.doctor.checkup import Checkup
        from rltui.model.past import PastModel
        from rltui.sources.past import PastSource

        source = PastSource(self._source())
        self.checkup = Checkup()
        self.model = PastModel(source, self._wanted)
        self.source = source
        return self.model

    def _wanted(self) -> float:
        """The time to show: of the end the whole record, if it has ended; else that of the last update."""
        source, place = self.source, self._place
        if source is None or not len(source.tape):
            return inf
        times = source.tape.times
        if place is None:
            return inf
        return times[place - 1] if place else times[0] - 0.001
