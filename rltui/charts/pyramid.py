"""One series of a chart: points (x, y) with minima and maxima of ever larger buckets above them.

A chart column covers thousands of points; the pyramid answers its minimum and maximum from a few dozen
numbers, so a spike is never lost and a draw costs the same at a thousand points and at a million.
"""

from __future__ import annotations

from array import array
from bisect import bisect_left, bisect_right
from collections import deque
from collections.abc import Iterable, Sequence
from itertools import islice
from math import inf, isfinite
from operator import lt
from threading import Lock
from typing import NamedTuple

FACTOR = 16  # points of a bucket, and buckets of a larger one
_SLICE = 4096  # points added under one hold of the lock: a reader never waits long
_GOLDEN = 0.6180339887498949
_CUTS = 64  # cuts remembered for readers that follow the series


class Span(NamedTuple):
    """The finite values of one column; `joined`: nothing, no gap either, lies between it and the span before."""

    low: float
    high: float
    first: float
    last: float
    joined: bool


class Columns(NamedTuple):
    """`spans[k]` is None where column k has no finite value; `gaps[k]` counts its NaN and Inf."""

    spans: list[Span | None]
    gaps: list[int]


class Pyramid:
    """Points in non-decreasing x. NaN and Inf are kept as gaps and never part of a bound.

    One thread may add while another reads: each call is consistent in itself. 18 bytes a point.
    """

    def __init__(self) -> None:
        self._xs = array("d")
        self._ys = array("d")
        # Only full buckets are stored, so adding a point touches a level once in FACTOR**level points and
        # a cut only shortens the arrays. A bucket without a finite value is (inf, -inf).
        self._lows: list[array[float]] = []
        self._highs: list[array[float]] = []
        self._gaps = array("L")  # indexes of the points that are not finite
        self._lock = Lock()
        self._cut_lengths: deque[int] = deque(maxlen=_CUTS)
        self._seen: tuple[Sequence[float], int, int, Columns] | None = None  # edges, cuts, points, columns: asked last
        self.cuts = 0  # how often points were taken away or replaced

    def __len__(self) -> int:
        return len(self._ys)

    @property
    def gap_count(self) -> int:
        return len(self._gaps)

    # ---- adding

    def append(self, x: float, y: float) -> None:
        """Adds a point. The x of the last point replaces it; a smaller x first drops all points from x on."""
        with self._lock:
            self._append(float(x), float(y))

    def extend(self, xs: Iterable[float], ys: Iterable[float]) -> None:
        """`append` for many points. ValueError if there are not as many x as y, or an x is not finite."""
        xs, ys = array("d", xs), array("d", ys)
        if len(xs) != len(ys):
            raise ValueError(f"{len(xs)} x values for {len(ys)} y values")
        for start in range(0, len(xs), _SLICE):
            with self._lock:
                self._extend(xs[start : start + _SLICE], ys[start : start + _SLICE])

    def truncate(self, x: float) -> None:
        """Drops all points from `x` on: a resumed run plays its steps again."""
        with self._lock:
            self._cut(bisect_left(self._xs, x))

    def _append(self, x: float, y: float) -> None:
        if not isfinite(x):
            raise ValueError(f"x must be a finite number, not {x}")
        xs = self._xs
        if xs and x <= xs[-1]:
            self._cut(bisect_left(xs, x))
        if not isfinite(y):
            self._gaps.append(len(xs))
        xs.append(x)
        self._ys.append(y)
        if not len(xs) % FACTOR:
            self._complete()

    def _extend(self, xs: array[float], ys: array[float]) -> None:
        after = self._xs[-1] if self._xs else -inf
        rising = xs[0] > after and xs[-1] < inf and all(map(lt, xs, islice(xs, 1, None)))
        if not rising:
            for x, y in zip(xs, ys, strict=True):
                self._append(x, y)
            return
        start = len(self._ys)
        self._xs.extend(xs)
        self._ys.extend(ys)
        if not isfinite(sum(ys)):  # a sum may overflow too: then this is only slower
            self._gaps.extend(i for i, y in enumerate(ys, start) if not isfinite(y))
        self._complete()

    def _complete(self) -> None:
        """Stores the buckets that are full by now, level by level."""
        level, lows, highs = 0, self._ys, self._ys
        while len(lows) >= FACTOR:
            if level == len(self._lows):
                self._lows.append(array("d"))
                self._highs.append(array("d"))
            above_lows, above_highs = self._lows[level], self._highs[level]
            if len(above_lows) == len(lows) // FACTOR:
                return
            for start in range(len(above_lows) * FACTOR, len(lows) - FACTOR + 1, FACTOR):
                low, high = lows[start : start + FACTOR], highs[start : start + FACTOR]
                if not level and not isfinite(sum(low)):  # a sum may overflow too: then this is only slower
                    low = high = array("d", filter(isfinite, low))
                above_lows.append(min(low, default=inf))
                above_highs.append(max(high, default=-inf))
            level, lows, highs = level + 1, above_lows, above_highs

    def _cut(self, length: int) -> None:
        if length >= len(self._xs):
            return
        self.cuts += 1
        self._cut_lengths.append(length)
        del self._xs[length:], self._ys[length:]
        del self._gaps[bisect_left(self._gaps, length) :]
        for lows, highs in zip(self._lows, self._highs, strict=True):
            length //= FACTOR
            del lows[length:], highs[length:]

    # ---- reading

    def kept(self, cuts: int) -> int:
        """How many of the points that a reader saw when `self.cuts` was `cuts` still stand, at most."""
        with self._lock:
            missed = self.cuts - cuts
            if missed > len(self._cut_lengths):
                return 0
            return min(islice(reversed(self._cut_lengths), missed), default=len(self._ys))

    def points(self, start: int, end: int) -> tuple[Sequence[float], Sequence[float]]:
        """Copies of x and y of the points with index in [start, end)."""
        with self._lock:
            return self._xs[start:end], self._ys[start:end]

    def sample(self, x0: float, x1: float, limit: int) -> tuple[list[float], int]:
        """At most `limit` finite values with x in [x0, x1], evenly spread, and how many points lie there."""
        with self._lock:
            start, end = bisect_left(self._xs, x0), bisect_right(self._xs, x1)
            total = end - start
            if total <= limit:
                values: Iterable[float] = self._ys[start:end]
            else:  # by the golden ratio: spread as evenly as equal strides, but not blind to a period
                values = (self._ys[start + int(k * _GOLDEN % 1 * total)] for k in range(limit))
            return [y for y in values if isfinite(y)], total

    def count_outside(self, x0: float, x1: float, low: float, high: float, most: int = 500) -> int | None:
        """Finite values outside [low, high] with x in [x0, x1]; None if more than `most` buckets hold such values."""
        with self._lock:
            start, end = bisect_left(self._xs, x0), bisect_right(self._xs, x1)
            level, size = len(self._lows), FACTOR ** len(self._lows)
            ranges = [(start // size, -(-end // size))] if start < end else []
            while level:
                lows, highs = self._lows[level - 1], self._highs[level - 1]
                suspects = []
                for a, b in ranges:
                    for i in range(a, b):
                        # What is not a full bucket yet has no bounds.
                        if i >= len(lows) or lows[i] < low or highs[i] > high:
                            suspects.append(i)
                if len(suspects) > most:
                    return None
                level, size = level - 1, size // FACTOR
                first, last = start // size, -(-end // size)
                ranges = [(max(first, i * FACTOR), min(last, (i + 1) * FACTOR)) for i in suspects]
            return sum((y < low or y > high) and isfinite(y) for a, b in ranges for y in self._ys[a:b])

    def count(self, x0: float, x1: float) -> int:
        """Points, gaps too, with x in [x0, x1]."""
        with self._lock:
            return bisect_right(self._xs, x1) - bisect_left(self._xs, x0)

    def gaps(self, x0: float, x1: float) -> int:
        """Points with x in [x0, x1] that are NaN or Inf."""
        with self._lock:
            return self._gaps_between(bisect_left(self._xs, x0), bisect_right(self._xs, x1))

    def range(self) -> tuple[float, float] | None:
        """The first and the last x; None without points."""
        with self._lock:
            return (self._xs[0], self._xs[-1]) if self._xs else None

    def at(self, x: float) -> tuple[float, float] | None:
        """The point whose x is nearest to `x` (the earlier of two); None without points."""
        with self._lock:
            xs = self._xs
            if not xs:
                return None
            i = min(bisect_left(xs, x), len(xs) - 1)
            if i and x - xs[i - 1] <= abs(xs[i] - x):
                i -= 1
            return xs[i], self._ys[i]

    def neighbour(self, x: float, by: float) -> float | None:
        """The x of the point nearest to `x + by`, but beyond `x` in that direction; None if there is none."""
        with self._lock:
            xs = self._xs
            target = bisect_left(xs, x + by)
            if target and (target == len(xs) or x + by - xs[target - 1] <= xs[target] - x - by):
                target -= 1
            target = min(target, bisect_left(xs, x) - 1) if by < 0 else max(target, bisect_right(xs, x))
            return xs[target] if 0 <= target < len(xs) else None

    def last(self) -> tuple[float, float] | None:
        """The last point with a finite value."""
        with self._lock:
            i = self._last_finite(0, len(self._ys))
            return None if i is None else (self._xs[i], self._ys[i])

    def bounds(self, x0: float, x1: float) -> tuple[float, float] | None:
        """Minimum and maximum of the finite values with x in [x0, x1]; None if there is none."""
        with self._lock:
            low, high = self._bounds(bisect_left(self._xs, x0), bisect_right(self._xs, x1))
        return None if low > high else (low, high)

    def columns(self, x0: float, x1: float, count: int) -> Columns:
        """[x0, x1] as `count` columns, the first centred on x0 and the last on x1."""
        step = (x1 - x0) / max(1, count - 1)
        return self.columns_at([x0, *(x0 + (k - 0.5) * step for k in range(1, count)), x1])

    def columns_at(self, edges: Sequence[float]) -> Columns:
        """Column k holds x in [edges[k], edges[k + 1]), the last one its right edge too.

        Asked again with the same edges it looks at the points that came since.
        """
        with self._lock:
            known, cuts, points = self._seen, self.cuts, len(self._xs)
            if known is None or known[:2] != (edges, cuts) or not known[2]:
                columns = self._columns([], [], edges)
            elif known[2] == points:
                return known[3]
            else:  # from the column of the last point that was there
                k = max(0, min(len(edges) - 1, bisect_right(edges, self._xs[known[2] - 1])) - 1)
                columns = self._columns(known[3].spans[:k], known[3].gaps[:k], edges)
            self._seen = (edges, cuts, points, columns)
            return columns

    def _columns(self, spans: list[Span | None], gaps: list[int], edges: Sequence[float]) -> Columns:
        """The columns after those of `spans` and `gaps`."""
        xs, ys = self._xs, self._ys
        begin, end = bisect_left(xs, edges[0]), bisect_left(xs, edges[len(spans)])
        last = self._last_finite(begin, end)
        before = -1 if last is None else last
        final = len(edges) - 2
        for k in range(len(spans), final + 1):
            start = end
            search = bisect_right if k == final else bisect_left
            end = search(xs, edges[k + 1], start)
            gap_count = self._gaps_between(start, end) if self._gaps else 0
            gaps.append(gap_count)
            low, high = self._bounds(start, end) if start < end else (inf, -inf)
            if low > high:
                spans.append(None)
                continue
            first, last = start, end - 1
            if gap_count:
                first, last = self._first_finite(start, end), self._last_finite(start, end)
                assert last is not None
            spans.append(Span(low, high, ys[first], ys[last], first == before + 1))
            before = last
        return Columns(spans, gaps)

    def _gaps_between(self, start: int, end: int) -> int:
        return bisect_left(self._gaps, end) - bisect_left(self._gaps, start)

    def _first_finite(self, start: int, end: int) -> int:
        # The gaps are sorted: the first index that is missing among them, by halving.
        offset = bisect_left(self._gaps, start)
        low, high = 0, min(end - start, len(self._gaps) - offset)
        while low < high:
            middle = (low + high) // 2
            low, high = (middle + 1, high) if self._gaps[offset + middle] == start + middle else (low, middle)
        return start + low

    def _last_finite(self, start: int, end: int) -> int | None:
        offset = bisect_left(self._gaps, end)
        low, high = 0, min(end - start, offset)
        while low < high:
            middle = (low + high) // 2
            low, high = (middle + 1, high) if self._gaps[offset - 1 - middle] == end - 1 - middle else (low, middle)
        return end - 1 - low if low < end - start else None

    def _bounds(self, start: int, end: int) -> tuple[float, float]:
        """(inf, -inf) without a finite value. Climbs to larger buckets as long as whole ones fit."""
        low_parts, high_parts = array("d"), array("d")
        left, right = -(-start // FACTOR) * FACTOR, end // FACTOR * FACTOR
        if left >= right:
            low_parts += self._ys[start:end]
        else:
            low_parts += self._ys[start:left]
            low_parts += self._ys[right:end]
        if self._gaps and self._gaps_between(start, end):
            low_parts = array("d", filter(isfinite, low_parts))
        high_parts += low_parts
        for lows, highs in zip(self._lows, self._highs, strict=True):
            if left >= right:
                break
            start, end = left // FACTOR, right // FACTOR
            left, right = -(-start // FACTOR) * FACTOR, end // FACTOR * FACTOR
            if left >= right or lows is self._lows[-1]:
                low_parts += lows[start:end]
                high_parts += highs[start:end]
                break
            low_parts += lows[start:left]
            low_parts += lows[right:end]
            high_parts += highs[start:left]
            high_parts += highs[right:end]
        return min(low_parts, default=inf), max(high_parts, default=-inf)
