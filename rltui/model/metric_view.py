"""The metrics of a run as they are listed: in groups by the first part of their name, pinned ones first. Pure.

The Metrics tab and `rltui metrics` both read their numbers here.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Sequence
from dataclasses import asdict, dataclass
from math import inf, isfinite, nextafter
from typing import Any

from rltui.charts.parts import trend
from rltui.charts.pyramid import Pyramid
from rltui.charts.smooth import Ema, default_weight
from rltui.model.find import Finder
from rltui.model.metrics import MetricStore

PINNED, OTHER = "pinned", "other"
# What a person looks at first; groups that are not named come after them, by name.
_ORDER = (
    *("reward", "eval", "gspo", OTHER, "canary", "logp_gap", "mismatch_kl", "off_policy", "batch", "optim", "length"),
    *("turns", "tokens", "stop", "error", "judge", "time", "trainer", "rollouter", "throughput", "system"),
)
_RANK = {name: rank for rank, name in enumerate(_ORDER)}
_LEADING = ("mean", "reward_mean", "loss", "std", "sd", "max")  # of each group


def group_of(name: str) -> str:
    """ "reward" of "reward/mean"; OTHER for names of one part."""
    return name.partition("/")[0] if "/" in name else OTHER


def ordered(names: Collection[str]) -> list[str]:
    """Group by group."""
    return sorted(names, key=_place)


def _place(name: str) -> tuple[int, str, int, str]:
    group, rest = group_of(name), name.partition("/")[2]
    leading = _LEADING.index(rest) if rest in _LEADING else len(_LEADING)
    return _RANK.get(group, len(_RANK)), group, leading, name


@dataclass(frozen=True)
class Row:
    """A line of the list: a heading (no name) with the number of its metrics, or a metric."""

    group: str
    name: str = ""
    count: int = 0


def rows(
    names: Collection[str], pins: Sequence[str] = (), folded: Collection[str] = (), finder: Finder | None = None
) -> list[Row]:
    """The lines of the list. Pinned names stand in their own group at the top, in the order of pinning. FindError:
    the expression takes too long."""
    kept = finder.among(sorted(names)) if finder is not None else list(names)
    pinned = [name for name in pins if name in kept]
    groups: dict[str, list[str]] = {PINNED: pinned}
    for name in ordered(set(kept).difference(pinned)):
        groups.setdefault(group_of(name), []).append(name)
    return list(_lines(groups, folded))


def _lines(groups: dict[str, list[str]], folded: Collection[str]) -> Iterator[Row]:
    for group, names in groups.items():
        if names:
            yield Row(group, count=len(names))
        if group not in folded:
            yield from (Row(group, name) for name in names)


@dataclass(frozen=True)
class Smoothed:
    """What the title of a chart says: the end of the average, and how much that moved over how many steps."""

    weight: float
    last: float | None
    trend: float | None
    trend_steps: float


@dataclass(frozen=True)
class Numbers:
    """One metric in numbers. `last` is the newest value, NaN if that was not finite; `low` and `high` are of finite
    values; `points` counts all values, `nonfinite` those that are NaN or infinite. Without values they are None."""

    name: str
    group: str
    last: float | None
    last_step: float | None
    low: float | None
    high: float | None
    points: int
    nonfinite: int
    ema: Smoothed | None

    def json(self) -> dict[str, Any]:
        """For --json."""
        return asdict(self)


def numbers(store: MetricStore, name: str, after: float = -1.0) -> Numbers:
    """Of the values at steps above `after`, except `last`, `last_step` and `ema`, which are of all. KeyError: no such
    metric."""
    series = store.series[name]
    start = nextafter(after, inf)
    bounds, reach = series.bounds(start, inf), series.range()
    low, high = bounds or (None, None)
    return Numbers(
        name,
        group_of(name),
        store.latest.get(name),
        reach[1] if reach else None,
        low,
        high,
        series.count(start, inf),
        series.gaps(start, inf),
        smoothed(series, default_weight(name)),
    )


def smoothed(series: Pyramid, weight: float) -> Smoothed | None:
    """None: the metric is not smoothed."""
    if not weight:
        return None
    ema = Ema(series, weight)
    while ema.update():
        pass
    last, moved = ema.pyramid.last(), trend(ema.pyramid)
    return Smoothed(weight, last[1] if last else None, *(moved or (None, 0.0)))


def values(store: MetricStore, name: str, after: float = -1.0) -> list[tuple[float, float | None]]:
    """(step, value) of the steps above `after`; None where it was not finite. KeyError: no such metric."""
    xs, ys = store.series[name].points(0, len(store.series[name]))
    return [(x, y if isfinite(y) else None) for x, y in zip(xs, ys, strict=True) if x > after]
