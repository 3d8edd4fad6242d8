"""How far a run is at a step, other than by steps: by time, by sampled tokens, by episodes.

A step is one update of the optimizer and stays the x of every chart. Its other names label it; where runs lie over
one another, `series` puts the same points by them, since two runs get through a step in different times.
"""

from __future__ import annotations

from collections.abc import Mapping
from datetime import datetime
from math import isfinite
from typing import TYPE_CHECKING, Any

from rltui.charts.numbers import number, place
from rltui.charts.parts import Axis
from rltui.charts.pyramid import Pyramid
from rltui.model.metrics import TIME
from rltui.words import duration

if TYPE_CHECKING:
    from rltui.model.metrics import MetricStore

STEP, TOKENS, EPISODES = "step", "tokens", "episodes"
AXES = (STEP, TIME, TOKENS, EPISODES)
_LENGTH = "length/mean"  # sampled tokens of an episode, on the last step of its iteration


class Along:
    """Call `update` when metrics or status may have changed."""

    def __init__(self, metrics: MetricStore) -> None:
        self.metrics = metrics
        self._began: float | None = None  # epoch seconds
        self._per_step = 0.0  # episodes
        self._steps = 1  # of an iteration
        self._tokens = Pyramid()
        self._seen = (0, 0)  # points of the lengths that are summed, and their cuts then

    def update(self, status: Mapping[str, Any] | None) -> None:
        """Take the sizes of the run from its status, and sum up what came."""
        status = status or {}
        totals = status.get("totals") or {}
        steps, iterations, episodes = (totals.get(name) for name in ("steps", "iterations", "episodes"))
        if steps and iterations and episodes:
            self._steps, self._per_step = max(1, int(steps) // int(iterations)), int(episodes) / int(steps)
        self._began = _epoch(status.get("created_at"))
        self._sum()

    def at(self, axis: str, step: float) -> float | None:
        """Seconds since the run was made, tokens sampled or episodes used by `step`. None: not known."""
        if axis == STEP:
            return step
        if axis == EPISODES:
            return step * self._per_step if self._per_step else None
        if axis == TIME:
            point = self.metrics.labels[TIME].at(step)
            began = self._began if self._began is not None else _first(self.metrics.labels[TIME])
            return max(0.0, point[1] - began) if point is not None and began is not None else None
        if step <= 0 and len(self._tokens):
            return 0.0
        point = self._tokens.at(step)
        return point[1] if point is not None else None

    def axis(self, name: str) -> Axis:
        """The axis of this name for a chart over steps."""
        if name == STEP:
            return Axis()
        return Axis(name, lambda step: written(name, self.at(name, step)))

    def series(self, axis: str, points: Pyramid) -> Pyramid:
        """The same points over another axis; those whose place is not known are left out."""
        if axis == STEP:
            return points
        found = Pyramid()
        xs, ys = points.points(0, len(points))
        for x, y in zip(xs, ys, strict=True):
            if (new := self.at(axis, x)) is not None:
                reach = found.range()
                found.append(max(new, reach[1]) if reach else new, y)
        return found

    def _sum(self) -> None:
        lengths = self.metrics.get(_LENGTH)
        if lengths is None or not self._per_step:
            return
        seen, cuts = self._seen
        kept = min(seen, lengths.kept(cuts))
        self._seen = (len(lengths), lengths.cuts)
        xs, ys = lengths.points(kept, len(lengths))
        if kept < seen:
            self._tokens.truncate(xs[0] if xs else (lengths.range() or (0.0, -1.0))[1] + 0.5)
        last = self._tokens.last()
        total = last[1] if last is not None else 0.0
        for x, y in zip(xs, ys, strict=True):
            if not x % self._steps and isfinite(y):  # an iteration's length counts once
                total += y * self._per_step * self._steps
                self._tokens.append(x, total)


def written(axis: str, value: float | None) -> str:
    """A place on an axis as a chart writes it; "" where it is not known."""
    if value is None:
        return ""
    if axis == TIME:
        return duration(value)
    return number(value) if axis == TOKENS else place(round(value))


def _first(series: Pyramid) -> float | None:
    _, ys = series.points(0, 1)
    return ys[0] if ys else None


def _epoch(iso: object) -> float | None:
    try:
        return datetime.fromisoformat(str(iso)).timestamp()
    except ValueError:
        return None
