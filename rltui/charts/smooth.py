"""Exponential moving average of a series, kept as a series of its own and carried on as points arrive."""

from __future__ import annotations

from collections.abc import Sequence
from math import ceil, isfinite, log, nan

from rltui.charts.pyramid import Pyramid

DEFAULT_WEIGHT = 0.6
_COUNTS = frozenset(("off_policy/dropped", "optim/skipped", "canary/undecided", "canary/failed", "judge/failed"))
_COUNT_PREFIXES = ("tokens/", "stop/", "error/")


def default_weight(metric: str) -> float:
    """The weight a metric is drawn with at first: 0 (off) for counts and for evaluations, which are few."""
    if metric in _COUNTS or metric.startswith((*_COUNT_PREFIXES, "eval/")):
        return 0.0
    return DEFAULT_WEIGHT


def titled(title: str, weight: float) -> str:
    """The title of a chart whose number is its average's."""
    return f"{title} (EMA {weight:g})" if weight else title


class Ema:
    """The debiased EMA of `source`: s = w*s + (1-w)*y from s = 0, shown as s / (1 - w^n) for the n-th value.

    So the first value is shown as it is and early ones are not drawn towards 0. It weighs by points, not by
    distance in x. NaN and Inf stay gaps and do not count. After a run of equal values that outweighs all before it
    10 000 to 1 the average is that value: a count that is 0 by now is not said to be 3e-7.
    """

    def __init__(self, source: Pyramid, weight: float) -> None:
        if not 0 < weight < 1:
            raise ValueError(f"an EMA weight lies between 0 and 1, not at {weight:g}")
        self.source = source
        self.weight = weight
        self.pyramid = Pyramid()
        self._cuts = 0
        self._settles = ceil(log(1e-4) / log(weight))  # equal values in a row

    def update(self, limit: int = 20_000) -> bool:
        """Follows the source by at most `limit` points; True if there are more."""
        cuts = self.source.cuts
        kept = min(self.source.kept(self._cuts), len(self.pyramid))
        self._cuts = cuts
        if kept < len(self.pyramid):
            self.pyramid.truncate(self.pyramid.points(kept, kept + 1)[0][0])
        xs, ys = self.source.points(kept, kept + limit)
        if xs:
            before = self.source.points(max(0, kept - self._settles), kept)[1]
            self.pyramid.extend(xs, self._carry_on(before, ys))
        return len(self.pyramid) < len(self.source)

    def _carry_on(self, before: Sequence[float], ys: Sequence[float]) -> list[float]:
        # The last shown value is all the state there is, so a cut needs no memory of older states. A constant
        # stays what it is to the last bit: its average must not lie a dot beside it.
        weight, out = self.weight, []
        seen = len(self.pyramid) - self.pyramid.gap_count
        last = self.pyramid.last()
        decay = weight**seen
        shown = last[1] if last else 0.0
        run, of = 0, nan
        for y in before:
            run, of = run + 1 if y == of else 1, y
        for y in ys:
            run, of = run + 1 if y == of else 1, y
            if not isfinite(y):
                out.append(nan)
                continue
            decay *= weight
            share = (1 - weight) / (1 - decay)
            shown = y if run >= self._settles else shown + share * y - share * shown
            out.append(shown)
        return out
