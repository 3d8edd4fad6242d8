"""Curves of several runs over one axis: the points of each run stand where that run was, in steps, time, tokens or
episodes."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

from rltui.charts.parts import Axis, Series
from rltui.charts.pyramid import Pyramid
from rltui.model.along import STEP, Along, written
from rltui.model.compared import ComparedRun


@dataclass
class _Moved:
    """A series on its way to another axis: how many of its points were taken, after how many cuts."""

    source: Pyramid
    points: Pyramid = field(default_factory=Pyramid)
    taken: int = 0
    cuts: int = 0

    def update(self, along: Along, axis: str) -> Pyramid:
        if self.source.kept(self.cuts) < self.taken:
            self.points, self.taken = Pyramid(), 0
        self.cuts = self.source.cuts
        xs, ys = self.source.points(self.taken, len(self.source))
        self.taken += len(xs)
        reach = self.points.range()
        last = reach[1] if reach else None
        new: list[tuple[float, float]] = []
        for x, y in zip(xs, ys, strict=True):
            at = along.at(axis, x)
            if at is not None and (last is None or at > last):
                new.append((at, y))
                last = at
            elif at is not None and new:
                new[-1] = (new[-1][0], y)  # at the same place: the later value counts
        self.points.extend([x for x, _ in new], [y for _, y in new])
        return self.points


class Overlay:
    """`axis` may be changed at any time; `series` gives the same objects again while the axis stays."""

    def __init__(self, runs: Sequence[ComparedRun]) -> None:
        self._runs = tuple(runs)
        self._axis = STEP
        self._moved: dict[tuple[int, str], _Moved] = {}

    @property
    def axis(self) -> str:
        """One of along.AXES."""
        return self._axis

    @axis.setter
    def axis(self, axis: str) -> None:
        if axis != self._axis:
            self._axis = axis
            self._moved.clear()

    def labels(self) -> Axis:
        """The axis as a chart writes it."""
        return Axis() if self._axis == STEP else Axis(self._axis, lambda x: written(self._axis, x))

    def series(self, name: str, words: Sequence[str], first: int = 0) -> list[Series]:
        """A line for each run that has the metric, brought up to date; that of run `first` lies in front.

        `words`: what the runs are called in the legend. A run has one colour and one marker everywhere: those of its
        place among the runs.
        """
        found = []
        for i in sorted(range(len(self._runs)), key=lambda i: i != first):
            source = self._runs[i].metrics.get(name)
            if source is not None:
                found.append(Series(words[i], self._placed(i, name, source), i))
        return found

    def update(self, name: str) -> None:
        """Take along what is new of a metric."""
        self.series(name, [""] * len(self._runs))

    def at(self, run: int, step: float) -> float | None:
        """Where a step of a run lies on the axis; None: not known."""
        return self._runs[run].along.at(self._axis, step)

    def _placed(self, run: int, name: str, source: Pyramid) -> Pyramid:
        if self._axis == STEP:
            return source
        moved = self._moved.get((run, name))
        if moved is None or moved.source is not source:
            moved = self._moved[run, name] = _Moved(source)
        return moved.update(self._runs[run].along, self._axis)
