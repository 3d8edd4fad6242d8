"""The episodes of a run as rows of a list: known by number at once, read where somebody looks.

Nothing but the rows near the cursor is kept, so 100,000 episodes cost a few MB.
"""

from __future__ import annotations

from bisect import bisect_right
from collections import OrderedDict
from collections.abc import Iterable
from contextlib import suppress
from typing import Any, Literal

from rltui.sources.base import Json, RunSource

PAGE_ROWS = 200
KEPT_PAGES = 64
Order = Literal["newest", "oldest"]


class EpisodeRows:
    """Episodes that count, in the order of their end; `order` says which end is row 0.

    `refresh` belongs to the thread that reads; len, `n_at`, `find` and `row` may be called from another: they see
    the rows as they were after one refresh.
    """

    def __init__(self, source: RunSource, order: Order = "oldest") -> None:
        self.source = source
        self.order: Order = order
        self.version = 0  # rises when rows were taken back: numbers of rows are not what they were
        self._known = _Numbers(0, ())
        self._pages: OrderedDict[int, tuple[int, dict[int, Json]]] = OrderedDict()
        self._dropped: list[tuple[int, int]] = []
        self._dropped_cursor: Any = None

    def refresh(self) -> tuple[bool, bool]:
        """(whether something changed, whether there is more to be found). Bounded; Unreadable."""
        count = self.source.episode_count()
        part = self.source.dropped(self._dropped_cursor)
        before = self._known
        if count < before.count:  # another run has taken the folder
            self._dropped, self._dropped_cursor = [], None
            part = self.source.dropped(None)
        self._dropped_cursor = part.cursor
        if part.rows:
            self._dropped = _merged([*self._dropped, *((n0, n1) for n0, n1 in part.rows)])
        if count != before.count or tuple(self._dropped) != before.dropped:
            if count < before.count or tuple(self._dropped) != before.dropped:
                self._pages.clear()
                self.version += 1
            self._known = _Numbers(count, tuple(self._dropped))
        return self._known is not before, part.more

    def __len__(self) -> int:
        return self._known.size

    @property
    def recorded(self) -> int:
        """Episodes recorded, those included that no longer count; each n is below this."""
        return self._known.count

    def n_at(self, i: int) -> int:
        """The number n of row i. IndexError."""
        known = self._known
        if not 0 <= i < known.size:
            raise IndexError(i)
        return known.n_at(known.size - 1 - i if self.order == "newest" else i)

    def find(self, n: int) -> int | None:
        """The row that episode n is in; None: it does not count, or is not there."""
        known = self._known
        i = known.find(n)
        return known.size - 1 - i if i is not None and self.order == "newest" else i

    def counts(self, n: int) -> bool:
        return self._known.find(n) is not None

    def row(self, i: int) -> Json:
        """The index row at place i. One that is damaged has nothing but its n. IndexError, Unreadable."""
        return self.of(self.n_at(i))

    def of(self, n: int) -> Json:
        """The index row of episode n; nothing but its n where it cannot be read."""
        page = n // PAGE_ROWS
        count = self._known.count
        kept = self._pages.get(page)
        if kept is None or (n not in kept[1] and kept[0] < min(count, (page + 1) * PAGE_ROWS)):
            upto = min(count, (page + 1) * PAGE_ROWS)
            rows = {row["n"]: row for row in self.source.index(page * PAGE_ROWS, upto)}
            self._pages[page] = kept = (upto, rows)
        with suppress(KeyError):  # a refresh may drop them all at any moment
            self._pages.move_to_end(page)
            while len(self._pages) > KEPT_PAGES:
                self._pages.popitem(last=False)
        return kept[1].get(n) or {"n": n}


class _Numbers:
    """n < count without the ranges [n0, n1) that no longer count; never changed once made."""

    def __init__(self, count: int, dropped: tuple[tuple[int, int], ...]) -> None:
        self.count = count
        self.dropped = dropped
        self._ends: list[int] = []  # of each dropped range
        self._kept_before: list[int] = []  # rows that count before each of them
        kept = at = 0
        for n0, n1 in dropped:
            kept += n0 - at
            self._kept_before.append(kept)
            self._ends.append(n1)
            at = n1
        self.size = max(0, kept + count - at)

    def n_at(self, i: int) -> int:
        """The n of the i-th row that counts."""
        k = bisect_right(self._kept_before, i)
        return i if k == 0 else self._ends[k - 1] + i - self._kept_before[k - 1]

    def find(self, n: int) -> int | None:
        if not 0 <= n < self.count:
            return None
        k = bisect_right(self.dropped, n, key=lambda part: part[0])
        if k == 0:
            return n
        end = self._ends[k - 1]
        return self._kept_before[k - 1] + n - end if n >= end else None


def _merged(ranges: Iterable[tuple[int, int]]) -> list[tuple[int, int]]:
    """Ranges [n0, n1) by n0, those that touch as one."""
    found: list[tuple[int, int]] = []
    for n0, n1 in sorted(ranges):
        if found and n0 <= found[-1][1]:
            found[-1] = found[-1][0], max(found[-1][1], n1)
        else:
            found.append((n0, n1))
    return found
