"""A list of any length with a cursor: only visible rows are asked for, a move of the cursor repaints two."""

from __future__ import annotations

from collections.abc import Callable, Hashable
from typing import TYPE_CHECKING, ClassVar, Protocol

from rich.segment import Segment
from rich.style import Style
from textual import events
from textual.binding import BindingType
from textual.message import Message

from rltui.widgets.bindings import bindings
from rltui.widgets.lines import Lines, look_of

if TYPE_CHECKING:
    from rltui.look import Look

FIND_WITHIN = 10_000  # rows looked at, each way, for the one that the cursor was on


class RowSource(Protocol):
    """Rows of a list.

    Two more methods are used where a source has them: `key(i) -> Hashable`, by which the cursor stays on its row
    when rows come and go, and `marked(i) -> bool`.
    """

    def __len__(self) -> int: ...

    def cells(self, i: int, width: int, look: Look) -> list[Segment]:
        """Row `i`, cleaned, in at most `width` cells."""
        ...


class NoRows:
    """The source of an empty list."""

    def __len__(self) -> int:
        return 0

    def cells(self, i: int, width: int, look: Look) -> list[Segment]:
        """There is no row."""
        return []


class VirtualList(Lines, inherit_bindings=False):
    """Shows a `RowSource`; posts `Highlighted` when the cursor moves and `Selected` on enter or double click.

    follow: while the cursor is on the last row it stays on the last row as rows come.
    """

    BINDINGS: ClassVar[list[BindingType]] = bindings("list")

    class Event(Message):
        """Something happened to the row `index` of `list`."""

        def __init__(self, list: VirtualList, index: int) -> None:
            super().__init__()
            self.list, self.index = list, index

        @property
        def control(self) -> VirtualList:
            """The list, for `@on` with a selector."""
            return self.list

    # Siblings: `@on` of a message also takes its subclasses.
    class Highlighted(Event):
        """The cursor is on another row."""

    class Selected(Event):
        """The row was opened."""

    def __init__(
        self,
        rows: RowSource | None = None,
        *,
        follow: bool = False,
        name: str | None = None,
        id: str | None = None,
        classes: str | None = None,
    ) -> None:
        super().__init__(name=name, id=id, classes=classes)
        self.follow = follow
        self._cursor = 0
        self._key: Hashable = None
        self.rows: RowSource = NoRows()
        if rows is not None:
            self.set_rows(rows)

    # Rows

    def set_rows(self, rows: RowSource, cursor: int = 0) -> None:
        """Show another source from now on, with the cursor on row `cursor`."""
        self.rows = rows
        self._cursor = self._inside(cursor)
        self._key = self._key_of(self._cursor)
        self.line_count = len(rows)
        if self.is_mounted:
            self.scroll_line_into_view(self._cursor)
            self.refresh()
            self.post_message(self.Highlighted(self, self._cursor))

    def update_rows(self) -> None:
        """Rows came, went or changed: the cursor keeps its row and its place, and what looks otherwise is drawn."""
        was_last, old, key = self._cursor >= self._line_count - 1, self._cursor, self._key
        count = len(self.rows)
        index = self._inside(count - 1 if self.follow and was_last else self._find(key, old))
        self.line_count = count
        self._cursor, self._key = index, self._key_of(index)
        if self.is_mounted and self.page_size:
            self.shift_top(index - old)
            self.scroll_line_into_view(index)
            self.refresh_changed()
        if index != old or self._key != key:
            self.post_message(self.Highlighted(self, index))

    def append_rows(self) -> None:
        """Rows were added at the end and no other changed: only the new ones are drawn."""
        was_last = self._cursor >= self._line_count - 1
        self.line_count = len(self.rows)
        if self.follow and was_last:
            self._put(self._inside(self._line_count - 1))
        elif self._key is None:
            self._key = self._key_of(self._cursor)

    def refresh_row(self, i: int) -> None:
        """Row `i` changed."""
        self.refresh_line(i)

    def line(self, y: int, width: int) -> list[Segment]:
        """Row `y` from the source."""
        return self.rows.cells(y, width, look_of(self))

    def line_style(self, y: int) -> Style | None:
        """The cursor, dimmer while another pane has the focus; else the mark."""
        look = look_of(self)
        if y == self._cursor:
            return look.style("selection" if self.has_focus else "selection_idle")
        marked: Callable[[int], bool] | None = getattr(self.rows, "marked", None)
        return look.style("marked") if marked is not None and marked(y) else None

    # The cursor

    @property
    def cursor(self) -> int:
        """The row that the cursor is on; 0 while there is none."""
        return self._cursor

    @cursor.setter
    def cursor(self, index: int) -> None:
        self._put(self._inside(index))

    def _put(self, index: int) -> None:
        old, self._cursor = self._cursor, index
        if index != old:
            self._key = self._key_of(index)
            self.refresh_lines((old, index))
            self.post_message(self.Highlighted(self, index))
        self.scroll_line_into_view(index)

    def _inside(self, index: int) -> int:
        return max(0, min(index, len(self.rows) - 1))

    def _key_of(self, index: int) -> Hashable:
        key: Callable[[int], Hashable] | None = getattr(self.rows, "key", None)
        return key(index) if key is not None and index < len(self.rows) else None

    def _find(self, key: Hashable, index: int) -> int:
        """Where the row with `key` is now: rows mostly come at one end, so look near `index` first."""
        count = len(self.rows)
        if key is None or self._key_of(index) == key:
            return index
        for away in range(1, min(max(index, count - index), FIND_WITHIN) + 1):
            for near in (index + away, index - away):
                if 0 <= near < count and self._key_of(near) == key:
                    return near
        return index

    # Keys and mouse

    def action_up(self) -> None:
        """One row up."""
        self.cursor -= 1

    def action_down(self) -> None:
        """One row down."""
        self.cursor += 1

    def action_page_up(self) -> None:
        """One page up."""
        self._page(-1)

    def action_page_down(self) -> None:
        """One page down."""
        self._page(1)

    def _page(self, way: int) -> None:
        lines = way * max(1, self.page_size - 1)
        self.scroll_to_top(self.top + lines)
        self.cursor += lines

    def action_first(self) -> None:
        """To the first row."""
        self.cursor = 0

    def action_last(self) -> None:
        """To the last row."""
        self.cursor = len(self.rows) - 1

    def action_select(self) -> None:
        """Open the row."""
        if len(self.rows):
            self.post_message(self.Selected(self, self._cursor))

    def on_click(self, event: events.Click) -> None:
        """A click puts the cursor, a double one opens."""
        row = self.top + event.y
        if row < len(self.rows):
            self.cursor = row
            if event.chain == 2:
                self.action_select()

    def on_focus(self) -> None:
        """The cursor shows that keys go here."""
        self.refresh_line(self._cursor)

    def on_blur(self) -> None:
        """The cursor shows that keys go elsewhere."""
        self.refresh_line(self._cursor)

    def on_resize(self) -> None:
        """The cursor stays in view, and what fits again comes back."""
        self.scroll_to_top(self.top)
        self.scroll_line_into_view(self._cursor)
