"""The record of a run as rules see it: values, never files. A rule reads windows, so 100,000 steps cost what 100 do."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from math import inf, isfinite
from typing import Any

from rltui.charts.pyramid import Pyramid
from rltui.model.ran_with import LIVE, ran_with
from trainer.taskapp.reading import finite

Json = dict[str, Any]
Leaf = Mapping[str, Any]  # {value, origin, at?, was?, note?}
GIVEN = ("file", "env", "override", "set", "migrated", LIVE)  # origins of what somebody wrote


@dataclass(frozen=True)
class Record:
    """A run as it stood at `step`.

    Attributes:
        series: metrics by step; eval/* by the step of the evaluated weights.
        times: epoch seconds by step.
        step: what came after it is not seen.
        status: status.json as it is to be shown.
        events: the newest ones.
        resolved: resolved.json; empty where there is none.
        environment: environment.json, likewise.
        judge_calls: the newest tries at the judge, (step, code) each; "" of one that gave scores.
        walls: seconds of the first episodes of the run and of its last ones.
        now: epoch seconds by the reader's clock.
        whole: whether the series begin where the run does.
    """

    series: Mapping[str, Pyramid] = field(default_factory=dict)
    times: Pyramid = field(default_factory=Pyramid)
    step: int = 0
    status: Json = field(default_factory=dict)
    events: Sequence[Json] = ()
    resolved: Json = field(default_factory=dict)
    environment: Json = field(default_factory=dict)
    judge_calls: Sequence[tuple[int, str]] = ()
    walls: tuple[Sequence[float], Sequence[float]] = ((), ())
    now: float = 0.0
    whole: bool = True

    def at(self, step: int) -> Record:
        """As it stood at an earlier step; status and configs stay those of now."""
        return replace(self, step=step)

    # Series

    def recent(self, name: str, points: int) -> list[float]:
        """The finite ones of its last `points` values."""
        return [y for _, y in self.recent_points(name, points)]

    def recent_points(self, name: str, points: int) -> list[tuple[float, float]]:
        """(x, y) of them."""
        end = self._end(name)
        return self._points(name, max(0, end - points), end)

    def within(self, name: str, steps: int) -> list[tuple[float, float]]:
        """(x, y) of the last `steps` steps."""
        series = self.series.get(name)
        start = series.count(-inf, self.step - steps) if series is not None else 0
        return self._points(name, start, self._end(name))

    def first(self, name: str, points: int) -> list[float]:
        """The finite ones of its first `points` values; none where the record does not begin with the run."""
        return [y for _, y in self._points(name, 0, min(points, self._end(name)))] if self.whole else []

    def slices(self, name: str, size: int, most: int = 32) -> list[list[float]]:
        """At most `most` windows of `size` values each, evenly spread over all there are."""
        end = self._end(name)
        if end < size or not self.whole:
            return []
        count = min(most, max(1, end // size * 2))
        starts = [round(k * (end - size) / max(1, count - 1)) for k in range(count)]
        return [[y for _, y in self._points(name, start, start + size)] for start in starts]

    def last(self, name: str) -> float | None:
        """Its newest finite value."""
        found = self.recent(name, 8)
        return found[-1] if found else None

    def count(self, name: str) -> int:
        """How many values it has, gaps too."""
        return self._end(name)

    def gaps(self, name: str, steps: int) -> int:
        """How many of its values of the last `steps` steps are not finite."""
        series = self.series.get(name)
        return series.gaps(self.step - steps + 0.5, self.step) if series is not None else 0

    def names(self, prefix: str) -> list[str]:
        """Series that begin so."""
        return sorted(name for name in list(self.series) if name.startswith(prefix))

    def time_of(self, step: float) -> float | None:
        """When a step was, epoch seconds."""
        point = self.times.at(step)
        return point[1] if point is not None else None

    def share(self, name: str, of: str, steps: int) -> float | None:
        """What part of `of` the series `name` made up in the last `steps` steps; None: not known."""
        whole = dict(self.within(of, steps))
        both = [(y, whole[x]) for x, y in self.within(name, steps) if x in whole]
        total = sum(all for _, all in both)
        return sum(part for part, _ in both) / total if total > 0 else None

    def _end(self, name: str) -> int:
        series = self.series.get(name)
        return series.count(-inf, self.step) if series is not None else 0

    def _points(self, name: str, start: int, end: int) -> list[tuple[float, float]]:
        series = self.series.get(name)
        if series is None or start >= end:
            return []
        xs, ys = series.points(start, end)
        return [(x, y) for x, y in zip(xs, ys, strict=True) if isfinite(y)]

    # Config

    @cached_property
    def leaves(self) -> Mapping[str, Leaf]:
        """Values in force by key, each with its origin: the resolved ones, and what a person has set since then."""
        return dict(_leaves(ran_with(self.resolved.get("values"), self.events, self.part("attempt")), ""))

    def value(self, key: str) -> Any:
        """What a key is in this run; None: not set, or not known."""
        return (self.leaves.get(key) or {}).get("value")

    def number(self, key: str) -> float | None:
        """The same where it is a number."""
        return finite(self.value(key))

    def derived(self, name: str) -> float | None:
        """E, U, m, groups, iterations or steps."""
        part = self.resolved.get("derived")
        return finite(part.get(name)) if isinstance(part, dict) else None

    @property
    def warnings(self) -> list[Json]:
        """What the config was warned about: {code, key, text, at}."""
        found = self.resolved.get("warnings")
        return [item for item in found if isinstance(item, dict)] if isinstance(found, list) else []

    # Status

    def part(self, *names: str) -> Any:
        """A field of the status, by the way to it; None: it is not there."""
        found: Any = self.status
        for name in names:
            found = found.get(name) if isinstance(found, dict) else None
        return found


def _leaves(node: Any, prefix: str) -> list[tuple[str, Leaf]]:
    found: list[tuple[str, Leaf]] = []
    for name, item in node.items() if isinstance(node, dict) else ():
        if isinstance(item, dict) and isinstance(item.get("origin"), str):
            found.append((f"{prefix}{name}", item))
        else:
            found += _leaves(item, f"{prefix}{name}.")
    return found
