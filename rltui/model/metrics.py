"""The metrics of a run as series over steps, for charts and numbers."""

from __future__ import annotations

from collections.abc import Iterable
from math import inf, nan, nextafter
from typing import Any

from rltui.charts.pyramid import Pyramid
from rltui.sources.base import Json
from rltui.text import clean

MAX_NAMES = 2_000
MAX_NAME = 120  # characters
_KEYS = frozenset("attempt step iteration epoch time weight_version eval_step nonfinite".split())
_NUMBERS = (int, float)
TIME, ITERATION = "time", "iteration"  # other ways to label a step


class MetricStore:
    """`series[name]` is a Pyramid by step, of eval/* by the step of the evaluated weights.

    One thread adds while others read: a series that stands here stays the same object.
    """

    def __init__(self, max_names: int = MAX_NAMES) -> None:
        self.series: dict[str, Pyramid] = {}
        self.labels = {TIME: Pyramid(), ITERATION: Pyramid()}  # by step: when it was, in which iteration
        self.latest: dict[str, float] = {}  # newest value of each name, NaN where that was not finite
        self.refused: set[str] = set()  # names beyond `max_names`: not kept, but said
        self.unordered = 0  # values of a step before one that stands already: passed over
        self.step = 0  # newest step seen
        self._max_names = max_names
        self._names: dict[str, str] = {}  # as written -> as shown

    def __len__(self) -> int:
        return len(self.series)

    def get(self, name: str) -> Pyramid | None:
        return self.series.get(name)

    def names(self) -> list[str]:
        """Sorted, so that those of one prefix stand together."""
        return sorted(list(self.series))

    def value_at(self, name: str, step: float) -> float | None:
        """The value at the step, or at the step nearest to it."""
        series = self.series.get(name)
        point = series.at(step) if series else None
        return point[1] if point else None

    def add(self, lines: Iterable[Json]) -> bool:
        """Take in lines in the order of writing; a later value of a step replaces the earlier one. True: any."""
        new: dict[str, _Points] = {}  # whole runs of points are added at once: half the time
        labels = {name: self._points(series) for name, series in self.labels.items()}
        added = False
        for line in lines:
            step = line.get("step")
            if type(step) is not int or not 0 <= step < 1 << 53:
                continue
            added = True
            x = float(step)
            eval_step: Any = line.get("eval_step")
            if type(eval_step) in _NUMBERS:
                x = float(eval_step) if abs(eval_step) < 1 << 53 else x
            else:
                self.step = max(self.step, step)
                for name, label in labels.items():
                    if x > label.last and type(line.get(name)) in _NUMBERS:
                        label.put(x, line[name])
            for name, value in line.items():
                if type(value) in _NUMBERS and name not in _KEYS:
                    points = new.get(name) or self._begin(new, name)
                    if points is not None and not points.put(x, value):
                        self.unordered += 1
            lost = line.get("nonfinite")
            for name in lost if isinstance(lost, list) else ():
                if isinstance(name, str) and name not in _KEYS:
                    points = new.get(name) or self._begin(new, name)
                    if points is not None:
                        points.put(x, nan)
        for points in [*labels.values(), *new.values()]:
            points.flush()
        for name, points in new.items():
            if points.ys:
                self.latest[self._names[name]] = points.ys[-1]
        return added

    def rewind(self, step: int) -> None:
        """Forget what happened after `step`; -1: everything. Values of evaluations go by their own step."""
        after = nextafter(float(step), inf)
        for series in [*self.series.values(), *self.labels.values()]:
            series.truncate(after)
        self.step = max(0, min(self.step, step))
        for name, series in self.series.items():
            last = series.last()
            if last is None:
                self.latest.pop(name, None)
            else:
                self.latest[name] = last[1]

    def _begin(self, new: dict[str, _Points], name: str) -> _Points | None:
        """The points of a name in this batch; None: it is refused."""
        shown = self._names.get(name) or self._new_name(name)
        if shown is None:
            return None
        # Two names that look the same are one series, and so one batch.
        series = self.series[shown]
        same = next((points for points in new.values() if points.series is series), None) if shown != name else None
        points = new[name] = same or self._points(series)
        return points

    @staticmethod
    def _points(series: Pyramid) -> _Points:
        reach = series.range()
        return _Points(series, reach[1] if reach else -inf)

    def _new_name(self, name: str) -> str | None:
        """What a name is shown as; None: there are too many."""
        shown = clean(name, MAX_NAME)
        if not shown:
            return None
        if shown not in self.series:
            if len(self.series) >= self._max_names:
                if len(self.refused) < self._max_names:
                    self.refused.add(shown)
                return None
            self.series[shown] = Pyramid()
        self._names[name] = shown
        return shown


class _Points:
    """Points on their way to a series, in the order of x."""

    def __init__(self, series: Pyramid, last: float) -> None:
        self.series = series
        self.last = last
        self.xs: list[float] = []
        self.ys: list[float] = []

    def put(self, x: float, value: float) -> bool:
        """False: it lies before the last point."""
        if x < self.last:
            return False
        try:
            y = float(value)
        except OverflowError:  # an integer beyond any float
            y = nan
        if self.xs and x == self.last:
            self.ys[-1] = y
        else:
            self.xs.append(x)
            self.ys.append(y)
            self.last = x
        return True

    def flush(self) -> None:
        if self.xs:
            self.series.extend(self.xs, self.ys)
            self.xs = []
