"""A filtered or sorted list of episodes, found in the background a few thousand rows at a time."""

from __future__ import annotations

from array import array
from bisect import bisect_left
from collections.abc import Callable, Iterator, Sequence
from typing import Any

from rltui.model.episode_query import LATE, number_of
from rltui.model.episodes import EpisodeRows
from rltui.model.fates import Fates
from rltui.sources.base import Json

SLICE_ROWS = 2_000  # rows decoded at a time: about 10 ms
TEXT_ROWS = 200  # whose texts are read at a time

Predicate = Callable[[Json], bool]
Key = Callable[[Json], Any]


class EpisodeView:
    """Rows of `rows` that fit, a RowSource as `EpisodeRows` is one. Empty until `scan` has run.

    `fields` are the index fields that `keep` and `key` look at (None: all of them, slower). Without `key` the
    order is that of `rows`; with it by key, rows without one (None) at the end. With `fates` a row has what became
    known of it later, and a row of which more is told is looked at again; `said` among the fields gives its text.
    """

    def __init__(
        self,
        rows: EpisodeRows,
        keep: Predicate | None = None,
        *,
        key: Key | None = None,
        reverse: bool = False,
        fields: Sequence[str] | None = None,
        fates: Fates | None = None,
    ) -> None:
        self.rows = rows
        self._fates, self._told = fates, fates.version if fates is not None else 0
        self.late = fates is not None and (fields is None or not LATE.isdisjoint(fields))
        # late: whether it asks for what becomes known after an episode's end
        self._texts = fields is not None and "said" in fields
        self.rewards = array("d")  # of each of those found, NaN for none
        self._keep, self._key, self._reverse, self._fields = keep, key, reverse, fields
        self._version = rows.version
        self._found = array("q")  # n in order of the record
        self._keys: list[Any] = []  # of each of them
        self._shown = array("q")
        self._low = self._high = 0  # the rows low <= n < high were looked at, the newest first
        self._sorted_at = 0  # how many were, at the last sort
        self._ready = 0  # how many were when what was found was shown
        self._again = False

    @property
    def total(self) -> int:
        """Rows to be looked at; all of them are when `scanned` is as much."""
        return self.rows.recorded

    @property
    def scanned(self) -> int:
        """Rows looked at. What was found among them is shown: other threads may rely on it."""
        return self._ready

    @property
    def _looked(self) -> int:
        return self._high - self._low

    def __len__(self) -> int:
        return len(self._shown)

    def n_at(self, i: int) -> int:
        shown = self._shown
        if not 0 <= i < len(shown):
            raise IndexError(i)
        return shown[len(shown) - 1 - i if self._key is None and self.rows.order == "newest" else i]

    def row(self, i: int) -> Json:
        return self.rows.of(self.n_at(i))

    def find(self, n: int) -> int | None:
        """The place of episode n; None: it is not among them."""
        try:
            i = self._shown.index(n)
        except ValueError:
            return None
        return len(self._shown) - 1 - i if self._key is None and self.rows.order == "newest" else i

    def scan(self) -> Iterator[tuple[int, int]]:
        """Look at the rows that came since; (scanned, total) after each slice. Call again when there are more.

        Unreadable. What was found so far shows after each slice, of a sorted view whenever that is twice as much.
        """
        if self._version != self.rows.version:
            self._forget()
        self._look_again()
        size = TEXT_ROWS if self._texts else SLICE_ROWS
        self._ready = min(self._ready, self._looked)
        if not self._looked:
            self._low = self._high = self.rows.recorded
        while self._looked < (total := self.rows.recorded):
            if self._high < total:
                n0, self._high = self._high, min(self._high + size, total)
                self._take(n0, self._high, newer=True)
            else:
                n1, self._low = self._low, max(0, self._low - size)
                self._take(self._low, n1, newer=False)
            if self._key is None:
                self._shown = self._found[:]
            elif self._looked >= min(2 * self._sorted_at, self.rows.recorded):
                self._sort()
            self._ready = self._looked
            yield self._ready, self.rows.recorded
        if self._key is not None and (len(self._shown) != len(self._found) or self._again):
            self._sort()
        self._ready = self._looked

    def _take(self, n0: int, n1: int, newer: bool) -> None:
        """Look at the rows n0 <= n < n1, which are newer or older than all that were looked at."""
        found, rewards, keys = array("q"), array("d"), []
        for row in self._slice(n0, n1):
            if self._keep is None or self._keep(row):
                found.append(row["n"])
                reward = number_of(row.get("R"))
                rewards.append(float("nan") if reward is None else reward)
                if self._key is not None:
                    keys.append(self._key(row))
        if newer:
            self._found, self.rewards, self._keys = self._found + found, self.rewards + rewards, self._keys + keys
        else:
            self._found, self.rewards, self._keys = found + self._found, rewards + self.rewards, keys + self._keys

    def _sort(self) -> None:
        self._shown, self._sorted_at, self._again = self._sorted(), self._looked, False

    def _slice(self, n0: int, n1: int) -> Iterator[Json]:
        fields = None if self._fields is None else tuple({*self._fields, "R"} - {"said"})
        texts: dict[int, str] | None = None

        def said(n: int) -> str:
            nonlocal texts
            if texts is None:  # read when the first row asks: other terms may have decided already
                texts = dict(self.rows.source.said(n0, n1))
            return texts.get(n, "")

        for row in self.rows.source.index(n0, n1, fields):
            if self.late and self._fates is not None:
                row = self._fates.over(row)
            if self._texts:
                row["said"] = lambda n=row["n"]: said(n)
            yield row

    def _look_again(self) -> None:
        """More is known of rows that were looked at: they are looked at again."""
        if not self.late or self._fates is None:
            return
        low = self._fates.low_since(self._told)
        self._told = self._fates.version
        if low is not None and low < self._high:
            self._high = max(low, self._low)
            cut = bisect_left(self._found, self._high)
            self._found, self._keys, self.rewards = self._found[:cut], self._keys[:cut], self.rewards[:cut]
            self._again = True

    def _forget(self) -> None:
        """Rows were taken back: what still counts stays, and nothing before it needs a second look."""
        self._version = self.rows.version
        if self._high > self.rows.recorded:  # it is another run now
            self._low = self._high = self._sorted_at = 0
            self._found, self.rewards = array("q"), array("d")
            self._keys = []
        kept = [at for at, n in enumerate(self._found) if self.rows.counts(n)]
        self._found = array("q", (self._found[at] for at in kept))
        self.rewards = array("d", (self.rewards[at] for at in kept))
        self._keys = [self._keys[at] for at in kept] if self._key else []
        self._shown = self._sorted() if self._key else self._found[:]

    def _sorted(self) -> array[int]:
        with_key = [(key, n) for key, n in zip(self._keys, self._found, strict=True) if key is not None]
        without = [n for key, n in zip(self._keys, self._found, strict=True) if key is None]
        try:
            with_key.sort(key=_first, reverse=self._reverse)
        except TypeError:  # a hostile record has words where numbers belong
            with_key.sort(key=lambda pair: str(pair[0]), reverse=self._reverse)
        return array("q", [n for _, n in with_key] + without)


def _first(pair: tuple[Any, int]) -> Any:
    return pair[0]
