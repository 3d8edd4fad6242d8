"""Points in a square from 0 to 1: how many fell into each cell, with a cursor that goes from point to point."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import ClassVar

from rich.segment import Segment
from textual.binding import BindingType
from textual.message import Message

from rltui.charts.numbers import number
from rltui.widgets.bindings import bindings
from rltui.widgets.lines import Lines, look_of

_LEFT = 7  # cells of the labels of y, with their axis
_SHADES = ("·", "∘", "•", "●")
_ASCII = (".", "o", "O", "@")
_BELOW = 2  # rows of the x-axis

Cell = tuple[int, int]  # column, row
Point = tuple[float, float, int]  # x, y, and what it stands for


class Scatter(Lines, inherit_bindings=False):
    """`show` gives the points; on enter `Opened` tells which of them lie under the cursor."""

    BINDINGS: ClassVar[list[BindingType]] = bindings("scatter")

    class Opened(Message):
        def __init__(self, keys: list[int]) -> None:
            super().__init__()
            self.keys = keys

    class Moved(Message):
        """The cursor stands on another point, or what lies there changed: its keys."""

        def __init__(self, keys: list[int]) -> None:
            super().__init__()
            self.keys = keys

    def __init__(self, x: str, y: str, *, id: str | None = None) -> None:
        super().__init__(id=id)
        self._x, self._y = x, y
        self._points: Sequence[Point] = ()
        self._cells: dict[tuple[int, int], list[int]] = {}  # (column, row) -> keys
        self._range = (0.0, 1.0)
        self._cursor: tuple[int, int] | None = None

    def show(self, points: Sequence[Point]) -> None:
        self._points = points
        self._lay_out()

    def on_resize(self) -> None:
        self._lay_out()

    @property
    def _room(self) -> tuple[int, int]:
        return max(1, self.size.width - _LEFT - 1), max(1, self.size.height - _BELOW)

    def _lay_out(self) -> None:
        if not self.is_mounted or not self.size:
            return
        values = [value for point in self._points for value in point[:2]]
        self._range = min([0.0, *values]), max([1.0, *values])
        self._cells = {}
        for x, y, key in self._points:
            self._cells.setdefault(self._cell(x, y), []).append(key)
        if self._cursor is not None and self._cursor not in self._cells:
            self._cursor = self._nearest(self._cursor, lambda dx, dy: abs(dx) + 2 * abs(dy)) if self._cells else None
        self.line_count = self.size.height
        self.refresh_changed()

    def _cell(self, x: float, y: float) -> tuple[int, int]:
        columns, rows = self._room
        low, high = self._range
        return round((x - low) / (high - low) * (columns - 1)), round((high - y) / (high - low) * (rows - 1))

    def line(self, y: int, width: int) -> list[Segment]:
        look = look_of(self)
        columns, rows = self._room
        low, high = self._range
        if y >= rows:
            return self._below(y - rows, columns)
        label = {0: number(high, 2), rows - 1: number(low, 2), (rows - 1) // 2: self._y}.get(y, "")
        found = [Segment(f"{label[: _LEFT - 2]:>{_LEFT - 2}} {look.glyph('vline')}", look.style("axis"))]
        shades = _ASCII if look.ascii else _SHADES
        diagonal = round((1 - y / max(1, rows - 1)) * (columns - 1))
        cursor = self._cursor if self.has_focus else None
        for column in range(columns):
            keys = self._cells.get((column, y))
            if keys:
                shade = shades[min(len(shades) - 1, (len(keys) - 1).bit_length())]
                style = look.style("accent") + look.style("selection") if cursor == (column, y) else look.series(0)
                found.append(Segment(shade, style))
            else:
                found.append(Segment(look.glyph("dot") if column == diagonal else " ", look.style("grid")))
        return found

    def _below(self, row: int, columns: int) -> list[Segment]:
        look = look_of(self)
        low, high = (number(end, 2) for end in self._range)
        if not row:
            return [Segment(" " * (_LEFT - 1) + look.glyph("hline") * (columns + 1), look.style("axis"))]
        middle = f"{self._x:^{max(0, columns - len(low) - len(high))}}"
        return [Segment(" " * _LEFT + low + middle + high, look.style("axis"))]

    def on_focus(self) -> None:
        if self._cursor is None and self._cells:
            self._cursor = max(self._cells, key=lambda cell: abs(cell[0] / self._room[0] - 1 + cell[1] / self._room[1]))
        self._told()
        self.refresh_changed()

    def on_blur(self) -> None:
        self.refresh_changed()

    def action_left(self) -> None:
        self._move(-1, 0)

    def action_right(self) -> None:
        self._move(1, 0)

    def action_up(self) -> None:
        self._move(0, -1)

    def action_down(self) -> None:
        self._move(0, 1)

    def action_open(self) -> None:
        keys = self._cells.get(self._cursor) if self._cursor is not None else None
        if keys:
            self.post_message(self.Opened(sorted(keys)))

    def _move(self, x: int, y: int) -> None:
        """To the nearest point that way; what lies aside counts more. A row is as high as two columns are wide."""
        if self._cursor is None:
            return
        here = self._cursor

        def away(dx: int, dy: int) -> float:
            ahead, aside = (dx * x, 2 * abs(dy)) if x else (2 * dy * y, abs(dx))
            return ahead + 3 * aside if ahead > 0 else float("inf")

        found = self._nearest(here, away)
        if found is not None and away(found[0] - here[0], found[1] - here[1]) < float("inf"):
            self._cursor = found
            self._told()
            self.refresh_lines((here[1], found[1]))

    def _nearest(self, cell: Cell, away: Callable[[int, int], float]) -> Cell | None:
        return min(self._cells, key=lambda other: away(other[0] - cell[0], other[1] - cell[1]), default=None)

    def _told(self) -> None:
        if self._cursor is not None:
            self.post_message(self.Moved(sorted(self._cells.get(self._cursor, ()))))
