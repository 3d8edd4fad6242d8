"""The base of views on wrapped text: a cursor on rows, of which only those in view have ever been laid out."""

from __future__ import annotations

from collections.abc import Iterable

from rich.segment import Segment
from rich.style import Style
from textual import events

from rltui.model.window import Place, Window
from rltui.widgets.lines import Lines, look_of


class Anchored(Lines, inherit_bindings=False):
    """Override `item_count`, `lay_out` and `row_segments`; call `repaint` when something changed.

    For `Lines` the content is exactly the page: row y of the screen is place y of the window.
    """

    def __init__(self, *, name: str | None = None, id: str | None = None, classes: str | None = None) -> None:
        super().__init__(name=name, id=id, classes=classes)
        self.window: Window[str] = Window(self.item_count, self._laid_out)
        self.cursor: Place = (0, 0)
        self._places: list[Place] = []
        self.rows_laid_out = 0  # since the start: what tests and a look at the costs count

    # What to override

    def item_count(self) -> int:
        """Paragraphs, log entries: what wraps on its own."""
        raise NotImplementedError

    def lay_out(self, item: int, width: int) -> list[str]:
        """The rows of an item: printable text, at most `width` cells each."""
        raise NotImplementedError

    def row_segments(self, item: int, row: int, text: str, width: int) -> list[Segment]:
        """One row in its colours."""
        raise NotImplementedError

    def moved(self) -> None:
        """The cursor or the view moved."""

    # Showing

    def repaint(self, changed: Iterable[int] = (), *, all: bool = False) -> None:
        """Items came, went or `changed`: repaint the rows that are not as before. all: every row is another."""
        changed = set(changed)
        for item in changed:
            self.window.forget(item)
        if all:
            self.window.forget()
        if not self.window.height:
            return
        self.window.settle()
        old, self._places = self._places, self.window.visible()
        self.line_count = len(self._places)
        if all:
            self.refresh_changed()
            return
        ys = [
            y
            for y in range(max(len(old), len(self._places)))
            if old[y : y + 1] != self._places[y : y + 1] or (y < len(self._places) and self._places[y][0] in changed)
        ]
        self.refresh_lines(ys)

    def line(self, y: int, width: int) -> list[Segment]:
        """Row `y` of the screen."""
        item, row = self._places[y]
        return self.row_segments(item, row, self.window.rows(item)[row], width)

    def line_style(self, y: int) -> Style | None:
        """The cursor."""
        if y < len(self._places) and self._places[y] == self.cursor:
            return look_of(self).style("selection" if self.has_focus else "selection_idle")
        return None

    def _laid_out(self, item: int) -> list[str]:
        rows = self.lay_out(item, max(1, self.size.width))
        self.rows_laid_out += len(rows)
        return rows

    def on_resize(self, event: events.Resize) -> None:
        """Another width wraps otherwise: the item at the top stays there, and the cursor in view."""
        stays_last = self.on_last
        self.window.height = event.size.height
        self.window.forget()
        self.window.top = (self.window.top[0], 0) if self.window.top[0] else (0, 0)
        self.cursor = self.window.last() if stays_last else self.window.inside(self.cursor)
        self._into_view()
        self.repaint(all=True)

    # The cursor

    @property
    def on_last(self) -> bool:
        """Whether the cursor is on the last item, so that what grows is followed."""
        return self.cursor[0] >= self.item_count() - 1

    def put(self, place: Place) -> None:
        """The cursor goes to `place`, and the view with it where it must."""
        old, self.cursor = self.cursor, self.window.inside(place) if self.window.height else place
        self._into_view()
        if self.window.height:
            self.repaint()
        self.refresh_lines(y for y, place in enumerate(self._places) if place in (old, self.cursor))
        self.moved()

    def _into_view(self) -> None:
        """Half a page further than it must, see `Lines.scroll_line_into_view`."""
        height = self.window.height
        if height and self.cursor not in self.window.visible():
            self.window.top = self.window.walk(self.cursor, -(height // 2))

    def scroll_by(self, lines: int) -> None:
        """The view moves; the cursor stays on its row of the text, or goes with the edge."""
        self.window.top = self.window.walk(self.window.top, lines)
        self.repaint()
        if self._places and self.cursor not in self._places:
            self.cursor = self._places[0] if self.cursor < self._places[0] else self._places[-1]
            self.refresh_line(self._places.index(self.cursor))
        self.moved()

    def action_up(self) -> None:
        """One row up."""
        self.put(self.window.walk(self.cursor, -1))

    def action_down(self) -> None:
        """One row down."""
        self.put(self.window.walk(self.cursor, 1))

    def action_page_up(self) -> None:
        """One page up."""
        self._page(-1)

    def action_page_down(self) -> None:
        """One page down."""
        self._page(1)

    def action_first(self) -> None:
        """To the first row."""
        self.put((0, 0))

    def action_last(self) -> None:
        """To the last row."""
        self.put(self.window.last())

    def _page(self, way: int) -> None:
        rows = way * max(1, self.window.height - 1)
        self.window.top = self.window.walk(self.window.top, rows)
        self.window.settle()
        self.put(self.window.walk(self.cursor, rows))

    def on_click(self, event: events.Click) -> None:
        """A click puts the cursor."""
        if event.y < len(self._places):
            self.put(self._places[event.y])

    def on_focus(self) -> None:
        """The cursor shows that keys go here."""
        self._refresh_cursor()

    def on_blur(self) -> None:
        """The cursor shows that keys go elsewhere."""
        self._refresh_cursor()

    def _refresh_cursor(self) -> None:
        if self.cursor in self._places:
            self.refresh_line(self._places.index(self.cursor))
