"""The episodes of a run as a person asks for them: filtered, sorted, in words. Screens and verbs share it. Pure."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

from rltui.model.episode_query import number_of, parse, value_of
from rltui.model.episode_view import SLICE_ROWS, EpisodeView
from rltui.model.episodes import EpisodeRows
from rltui.model.fates import Fates
from rltui.sources.base import Json

# name: (what is sorted by, highest first); newest and oldest need no search
SORTS: dict[str, tuple[str, bool]] = {
    "newest": ("", True),
    "reward, best first": ("reward", True),
    "reward, worst first": ("reward", False),
    "advantage, highest first": ("advantage", True),
    "advantage, lowest first": ("advantage", False),
    "ratio, farthest from 1 first": ("far", True),
    "longest first": ("length", True),
    "shortest first": ("length", False),
    "most turns first": ("turns", True),
    "oldest weights first": ("version", False),
    "lag, highest first": ("lag", True),
    "judge against env, farthest first": ("wide", True),
    "slowest first": ("wall", True),
}
_FIELDS = {"far": ("s",), "wide": ("O", "jo", "je"), "reward": ("R",), "advantage": ("adv",), "length": ("tok",)}
_FIELDS |= {"turns": ("turns",), "version": ("ver",), "lag": ("lag",), "wall": ("wall",)}
MOST_VALUES, BINS = 12, 10


def view_of(rows: EpisodeRows, fates: Fates, text: str, sort: str) -> EpisodeView | None:
    """The view that has to be scanned; None: all of them, newest first. FilterError; KeyError: no such sort."""
    wanted, (by, down) = parse(text), SORTS[sort]
    if wanted is None and not by:
        return None
    fields = (*(wanted.fields if wanted else ()), *_FIELDS.get(by, ()))
    return EpisodeView(
        rows,
        wanted.keep if wanted else None,
        key=_key(by) if by else None,
        reverse=down,
        fields=tuple(dict.fromkeys(fields)),
        fates=fates,
    )


def nearest_iteration(rows: EpisodeRows, iteration: int, split: str | None = None) -> int | None:
    """Of the iterations with recorded episodes the nearest one, the earlier of two; None: there is none."""
    found: set[int] = set()
    for n0 in range(0, rows.recorded, SLICE_ROWS):
        for row in rows.source.index(n0, n0 + SLICE_ROWS, ("iteration", "split")):
            if isinstance(row.get("iteration"), int) and split in (None, row.get("split")):
                found.add(row["iteration"])
    return min(found, key=lambda one: (abs(one - iteration), one), default=None)


def _key(by: str) -> Callable[[Json], float | None]:
    def far(row: Json) -> float | None:
        s = number_of(row.get("s"))
        return abs(math.log(s)) if s is not None and s > 0 else None

    def wide(row: Json) -> float | None:
        gap = value_of("gap", row)
        return abs(gap) if gap is not None else None

    return {"far": far, "wide": wide}.get(by) or (lambda row: value_of(by, row))


def shown(row: Json) -> Json:
    """What is told of an episode, by the names of the filter; null for what is not known."""
    numbers = ("iteration", "step", "attempt", "seed", "group", "member", "reward", "advantage", "s")
    more = ("length", "turns", "lag", "env", "judge", "gap", "wall")
    version = row.get("ver")
    return {
        "n": row.get("n"),
        "cid": row.get("cid"),
        "split": row.get("split"),
        **{name: value_of(name, row) for name in (*numbers, *more)},
        "clipped": row.get("clip"),
        "version": version if isinstance(version, list) else None,
        "stop": row.get("stop"),
        "excl": row.get("excl"),
    }


@dataclass(frozen=True, slots=True)
class Bin:
    """Rewards low <= R < high, of the last bin <= high; a bin of one value has low = high."""

    low: float
    high: float
    count: int
    last: bool = False

    @property
    def name(self) -> str:
        return f"{self.low:.4g}" if self.low == self.high else f"{self.low:.4g} – {self.high:.4g}"

    @property
    def query(self) -> str:
        """The filter that keeps it."""
        if self.low == self.high:
            return f"reward = {self.low!r}"
        return f"reward >= {self.low!r} and reward {'<=' if self.last else '<'} {self.high!r}"


def bins(rewards: Sequence[float]) -> list[Bin]:
    """A bin for each reward if they are few, else about ten of equal, round width."""
    import numpy as np

    every = np.array(rewards, dtype=np.float64)
    values, counts = np.unique(every[np.isfinite(every)], return_counts=True)
    if not len(values):
        return []
    if len(values) <= MOST_VALUES:
        return [Bin(value, value, count) for value, count in zip(values.tolist(), counts.tolist(), strict=True)]
    low, high = float(values[0]), float(values[-1])
    power = 10.0 ** math.floor(math.log10((high - low) / BINS))
    step = next(power * nice for nice in (1, 2, 5, 10, 20) if power * nice * BINS >= high - low)
    first = math.floor(low / step)
    edges = [round((first + i) * step, 12) for i in range(math.floor(high / step) - first + 2)]
    places = np.minimum(np.searchsorted(edges, values, side="right") - 1, len(edges) - 2)
    found = np.bincount(places, weights=counts, minlength=len(edges) - 1).astype(int).tolist()
    if found[-1] == 0:
        found.pop()
    elif len(found) > 1 and high == edges[-2]:  # the highest reward alone needs no bin
        last = found.pop()
        found[-1] += last
    return [Bin(edges[i], edges[i + 1], found[i], i == len(found) - 1) for i in range(len(found))]


def plain(value: Any) -> str:
    """A whole number of a row; "-" for none."""
    found = number_of(value)
    return "-" if found is None else f"{found:.0f}"
