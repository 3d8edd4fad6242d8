"""Logs of a run, one or several merged: follow, wrap, level, find. Only what is in view is laid out."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from typing import TYPE_CHECKING, ClassVar

from rich.segment import Segment
from rich.style import Style
from textual.binding import BindingType
from textual.message import Message

from rltui.model.log_lines import Level, begins_attempt, taken_apart, written
from rltui.model.log_store import LogStore
from rltui.text import clean
from rltui.text_lines import crop, pad, printable, wrap
from rltui.widgets.bindings import bindings
from rltui.widgets.finding import Finding
from rltui.widgets.lines import look_of

if TYPE_CHECKING:
    from rltui.look import Look

_SOURCE_CELLS = 12
_LEVEL_CELLS = 8  # WARNING, CRITICAL
_TIME_CELLS = 8
_LEAST_TEXT = 24  # cells for the text itself, or the columns before it are no columns


class LogView(Finding, inherit_bindings=False):
    """Feed it with `append`; it keeps the last 200,000 lines.

    While the cursor is on the last line it follows what comes.
    """

    BINDINGS: ClassVar[list[BindingType]] = bindings("list", "logs")

    class Changed(Message):
        """What `status` says is another."""

        def __init__(self, view: LogView) -> None:
            super().__init__()
            self.view = view

    def __init__(
        self,
        store: LogStore | None = None,
        *,
        wrap: bool = False,
        name: str | None = None,
        id: str | None = None,
        classes: str | None = None,
    ) -> None:
        super().__init__(name=name, id=id, classes=classes)
        self.store = store if store is not None else LogStore()
        self.wrap = wrap
        self.unread = 0  # lines that came while nobody looked at the end
        self._hidden = False
        self._only: str | None = None
        self._said = ""
        self.store.show(whole=wrap)

    # Lines

    def append(self, lines: Iterable[str], source: str = "") -> None:
        """Raw lines of `source` that came now, without line feeds."""
        following, names = self.follow, len(self.store.names)
        done = self.store.append(lines, source)
        widened = len(self.store.names) != names  # the column of sources is another
        if done.dropped:
            self.cursor = self._earlier(self.cursor, done.dropped)
            self.window.top = self._earlier(self.window.top, done.dropped)
        if done.added and (self._hidden or not following):
            self.unread += done.added
        if following:
            self._to_end(changed=done.changed)
        self.repaint(done.changed, all=bool(done.dropped) or widened)
        self._say()

    def clear(self) -> None:
        """Begin with nothing, as for another run."""
        self.store = LogStore(self.store.max_lines, self.store.max_chars)
        self.store.show(whole=self.wrap)
        self.cursor = self.window.top = (0, 0)
        self.unread, self._only = 0, None
        self.repaint(all=True)
        self._say()

    def go_to_time(self, at: float) -> bool:
        """The cursor to the first shown line that was written at `at` (epoch seconds) or later. False: there is none.
        Lines of several logs lie in the order of their times only so far as they came so."""
        for i in range(len(self.store)):
            when = written(self.store.text(i))
            if when is not None and when >= at:
                self.put((i, 0))
                return True
        return False

    def show_source(self, name: str | None) -> None:
        """Only the lines of source `name`; None: all of them, merged."""
        self._only = name
        self._filter(lambda: self.store.show(only=name))

    def show_level(self, level: Level) -> None:
        """Only lines of `level` and above."""
        self._filter(lambda: self.store.show(level=level))

    @property
    def follow(self) -> bool:
        """Whether the end is followed."""
        return self.on_last

    @property
    def status(self) -> str:
        """What a person must know about what is not in view, as one line; numbers are lines."""
        store, parts = self.store, []
        if self._only is not None:
            parts.append(clean(self._only, 40))
        if store.level_shown > Level.DEBUG:
            parts.append(f"{store.level_shown.word} and above: {_count(len(store))} of {_count(store.total)}")
        if store.dropped:
            parts.append(f"{_count(store.dropped)} older lines are cut")
        if self.unread:
            parts.append(f"{_count(self.unread)} new below")
        parts.append("following" if self.follow else f"line {_count(self.cursor[0] + 1)} of {_count(len(store))}")
        return f" {look_of(self).glyph('dot')} ".join(parts)

    # Keys

    def action_follow(self) -> None:
        """To the end and stay there, or let go of it."""
        if self.follow and len(self.store) > 1:
            self.put(self.window.walk((self.cursor[0], 0), -1))
        else:
            self.action_last()

    def action_wrap(self) -> None:
        """Wrap long lines, or cut them at the edge."""
        self.wrap = not self.wrap
        self._filter(lambda: self.store.show(whole=self.wrap))

    def action_level(self) -> None:
        """The next higher lowest level; after the highest all."""
        self.show_level(Level((self.store.level_shown + 1) % len(Level)))

    def action_copy(self) -> None:
        """The line at the cursor."""
        if len(self.store):
            self.app.copy(printable(self.store.text(self.cursor[0])), "line")  # type: ignore[attr-defined]

    # Laying out

    def item_count(self) -> int:
        """Lines that the filter shows."""
        return len(self.store)

    def lay_out(self, item: int, width: int) -> list[str]:
        """Source, time and level in columns, then the text."""
        line = taken_apart(printable(self.store.text(item)))
        lead = self._source_column(item)
        if line.level:
            lead += f"{line.time} {line.level:<{_LEVEL_CELLS}} "
        if self.store.goes_on(item):
            lead = " " * len(lead)
        if width - len(lead) < _LEAST_TEXT:
            whole = lead + line.text
            return wrap(whole, width) if self.wrap else [crop(whole, width, more=self._more())]
        room = width - len(lead)
        if self.wrap:
            first, *others = wrap(line.text, room)
            return [lead + first, *(" " * len(lead) + row for row in others)]
        text = line.text + self._more() if self.store.is_cut(item) else line.text
        return [lead + crop(text, room, more=self._more())]

    def row_segments(self, item: int, row: int, text: str, width: int) -> list[Segment]:
        """Dim columns, the level in its colour, text without a head in the colour of its level."""
        look, level = look_of(self), self.store.level(item)
        raw = self.store.text(item)
        if begins_attempt(raw):
            return self.painted(text, look.style("title"), [])
        headed = bool(taken_apart(printable(raw)).level)
        color = _style_of(look, level)
        base = look.style("text") if headed or level in (Level.DEBUG, Level.INFO) else color
        parts: list[tuple[int, int, Style]] = []
        dim = Style(bold=False) + look.style("dim")
        if row == 0 and not self.store.goes_on(item):
            at = len(self._source_column(item))
            parts.append((0, at, dim))
            if headed:
                parts.append((at, at + _TIME_CELLS, dim))
                parts.append((at + _TIME_CELLS + 1, at + _TIME_CELLS + 1 + _LEVEL_CELLS, color))
        return self.painted(text, base, parts)

    def moved(self) -> None:
        """Who reaches the end has read all."""
        if self.follow and not self._hidden:
            self.unread = 0
        self._say()

    def on_hide(self) -> None:
        """From now on lines are unread."""
        self._hidden = True

    def on_show(self) -> None:
        """Whoever follows sees the end."""
        self._hidden = False
        self.moved()

    # Searching

    def text_count(self) -> int:
        """Lines that are shown."""
        return len(self.store)

    def texts(self, start: int, stop: int) -> Iterator[tuple[int, str]]:
        """The lines without what colours them."""
        return ((i, printable(text)) for i, text in self.store.numbered(start, stop))

    def position(self) -> int:
        """The line of the cursor."""
        return self.cursor[0]

    def reveal(self, number: int) -> int:
        """Every line that is shown is an item."""
        return number

    # Within

    def _filter(self, change: Callable[[], None]) -> None:
        """Change what is shown; the cursor stays on its line, or on the next that is left."""
        following, store = self.follow, self.store
        seq = store.seq(self.cursor[0]) if len(store) else 0
        change()
        self.window.forget()
        if following:
            self._to_end()
        else:
            self.cursor = (min(store.place(seq), max(0, len(store) - 1)), 0)
            self.window.top = self.cursor
            self._into_view()
        self.repaint(all=True)
        self._say()

    def _to_end(self, changed: Iterable[int] = ()) -> None:
        for item in changed:
            self.window.forget(item)
        if not self.window.height:
            self.cursor = (max(0, len(self.store) - 1), 0)
            return
        old, self.cursor = self.cursor, self.window.last()
        self.window.top = self.window.walk(self.cursor, 1 - self.window.height)
        if old != self.cursor:
            self.refresh_lines(y for y, place in enumerate(self._places) if place == old)

    @staticmethod
    def _earlier(place: tuple[int, int], items: int) -> tuple[int, int]:
        return (place[0] - items, place[1]) if place[0] >= items else (0, 0)

    def _source_column(self, item: int) -> str:
        if self._only is not None or len(self.store.names) < 2:
            return ""
        cells = min(_SOURCE_CELLS, max(len(name) for name in self.store.names))
        return pad(printable(clean(self.store.source(item), _SOURCE_CELLS)), cells) + " "

    def _more(self) -> str:
        return look_of(self).glyph("ellipsis")

    def _say(self) -> None:
        if self.is_mounted and (said := self.status) != self._said:
            self._said = said
            self.post_message(self.Changed(self))


def _style_of(look: Look, level: Level) -> Style:
    return look.style(f"level_{level.word}")


def _count(n: int) -> str:
    return f"{n:,}".replace(",", " ")
