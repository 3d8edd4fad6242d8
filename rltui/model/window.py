"""A window on items that wrap into rows: only what it shows is laid out, however much lies above and below.

Nobody counts all rows. A place is (item, row in the item), the window has a place at its top and walks from there.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Generic, TypeVar

Row = TypeVar("Row")
Place = tuple[int, int]

_KEPT = 512  # items whose rows are kept; a screen shows some 60


class Window(Generic[Row]):
    """`count` tells how many items there are, `lay_out(item)` gives the rows of one (at least one)."""

    def __init__(self, count: Callable[[], int], lay_out: Callable[[int], Sequence[Row]]) -> None:
        self._count, self._lay_out = count, lay_out
        self._rows: dict[int, Sequence[Row]] = {}
        self.height = 0
        self.top: Place = (0, 0)

    def rows(self, item: int) -> Sequence[Row]:
        """The rows of an item, laid out if they are not yet."""
        rows = self._rows.get(item)
        if rows is None:
            if len(self._rows) >= _KEPT:
                self._rows.clear()
            rows = self._rows[item] = self._lay_out(item)
        return rows

    def forget(self, item: int | None = None) -> None:
        """The text of `item`, or the width or number of all, is another: lay out anew."""
        if item is None:
            self._rows.clear()
        else:
            self._rows.pop(item, None)

    def visible(self) -> list[Place]:
        """The places in view, from the top."""
        item, row = self.top
        places: list[Place] = []
        count = self._count()
        while item < count and len(places) < self.height:
            rows = len(self.rows(item))
            places.extend((item, r) for r in range(row, min(rows, row + self.height - len(places))))
            item, row = item + 1, 0
        return places

    def inside(self, place: Place) -> Place:
        """The nearest place that there is."""
        count = self._count()
        if count == 0:
            return (0, 0)
        item = max(0, min(place[0], count - 1))
        rows = len(self.rows(item))
        if place[0] > item:
            return (item, rows - 1)
        return (item, max(0, min(place[1], rows - 1)))

    def walk(self, place: Place, rows: int) -> Place:
        """The place `rows` further down (negative: up), or the last (first) one."""
        count = self._count()
        if count == 0:
            return (0, 0)
        item, row = self.inside(place)
        row += rows
        while row < 0 and item > 0:
            item -= 1
            row += len(self.rows(item))
        if row < 0:
            return (0, 0)
        while row >= (here := len(self.rows(item))):
            if item == count - 1:
                return (item, here - 1)
            row -= here
            item += 1
        return (item, row)

    def last(self) -> Place:
        """The last place of all."""
        return self.inside((self._count(), 0))

    def settle(self) -> None:
        """The top is where there is something, and no lower than a full page needs."""
        self.top = min(self.inside(self.top), self.walk(self.last(), 1 - max(1, self.height)))
