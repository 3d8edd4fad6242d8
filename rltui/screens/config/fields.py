"""The fields of a section, one line each; the value of one of them may be under the editor."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, ClassVar

from rich.cells import cell_len
from rich.segment import Segment
from rich.style import Style
from textual.binding import BindingType

from rltui.text import clean
from rltui.text_lines import crop, pad, printable
from rltui.widgets.bindings import bindings
from rltui.widgets.lines import look_of
from rltui.widgets.virtual_list import VirtualList

if TYPE_CHECKING:
    from rltui.look import Look
    from rltui.model.form_rows import Row

MARK = 3  # cells before the name: a space, the sign, a space
NAME_MIN, NAME_MAX = 16, 30
VALUE_MIN, VALUE_MAX = 12, 40
NOTE_MIN = 8  # what is shorter says nothing: "default" is the least
GAP = 2
STATE_STYLES = {
    "default": "dim",
    "set": "text",
    "changed": "accent",
    "moved": "watch",
    "unknown": "act",
    "wrong": "act",
}


@dataclass(frozen=True)
class Columns:
    """Cells of each column of a line; the rest is the note."""

    name: int
    value: int

    @property
    def value_at(self) -> int:
        return MARK + self.name + GAP


def columns(rows: Sequence[Row], width: int, *, whole_keys: bool) -> Columns:
    """Names as wide as the longest, within a share of the line; values as wide as the rest allows. Where no note fits
    names and values have its room."""
    longest = max((cell_len(row.key if whole_keys else row.name) for row in rows), default=NAME_MIN)
    room = width - MARK - GAP
    if room - NAME_MIN - VALUE_MIN - GAP < NOTE_MIN:
        name = max(NAME_MIN, min(longest, room - VALUE_MIN))
        return Columns(name, max(VALUE_MIN, room - name))
    most = min(NAME_MAX + 10 * whole_keys, int(width * 0.42), room - VALUE_MIN - GAP - NOTE_MIN)
    name = max(NAME_MIN, min(longest, most))
    value = max(VALUE_MIN, min(VALUE_MAX, int((width - MARK - name) * 0.42)))
    return Columns(name, value)


class FieldRows:
    """The source of the list: `rows`, the words that are searched for, and what is being typed."""

    def __init__(self) -> None:
        self.rows: Sequence[Row] = ()
        self.terms: tuple[str, ...] = ()
        self.whole_keys = False  # of several sections
        self.live: tuple[str, str, str] | None = None  # (key, note, style) while a value is typed
        self._columns: tuple[int, Columns] | None = None

    def put(self, rows: Sequence[Row], *, terms: tuple[str, ...] = (), whole_keys: bool = False) -> None:
        self.rows, self.terms, self.whole_keys = rows, terms, whole_keys
        self._columns = None

    def columns(self, width: int) -> Columns:
        if self._columns is None or self._columns[0] != width:
            self._columns = width, columns(self.rows, width, whole_keys=self.whole_keys)
        return self._columns[1]

    def __len__(self) -> int:
        return len(self.rows)

    def key(self, i: int) -> str:
        return self.rows[i].key

    def cells(self, i: int, width: int, look: Look) -> list[Segment]:
        row, place, more = self.rows[i], self.columns(width), look.glyph("ellipsis")
        style = look.style(STATE_STYLES[row.state])
        quiet = row.state == "default"
        text = look.style("dim" if quiet or not row.used else "text")
        name = pad(crop(safe(row.key if self.whole_keys else row.name), place.name, more=more), place.name)
        note, note_style = self._note(row)
        rest = width - place.value_at
        cells = rest if not note or rest - place.value - GAP <= 3 else place.value  # nothing beside it: all the room
        value = pad(crop(safe(row.value), cells, more=more), place.value)
        strong = look.style("dim" if quiet or not row.used else "strong")
        segments = [
            Segment(f" {sign(row, look)} ", style),
            *_hits(name, self.terms, text, look),
            Segment(" " * GAP),
            Segment(value, style if row.state in ("wrong", "unknown") else strong),
        ]
        room = width - place.value_at - place.value - GAP
        if room > 3 and note:
            key = "  x: fix" if _mendable(row) and self.live is None and room > 24 else ""
            note = crop(note, room - len(key), more=more)
            segments += [Segment(" " * GAP), Segment(note, look.style(note_style)), Segment(key, look.style("key"))]
        return segments

    def _note(self, row: Row) -> tuple[str, str]:
        if self.live is not None and self.live[0] == row.key:
            return safe(self.live[1]), self.live[2]
        note = safe(row.note)
        if row.state == "moved":
            return "moved  m: migrate", "watch"
        if row.state in ("wrong", "unknown"):
            return note, "act"
        if not row.used:
            return "not used with these values", "dim"
        worst = row.problem
        if worst is not None and note == safe(worst.why) and worst.level == "warning":
            return note, "watch"
        return note, "dim"


def _mendable(row: Row) -> bool:
    worst = row.problem
    return row.state in ("wrong", "unknown") and worst is not None and bool(worst.fix)


def safe(text: str, limit: int = 200) -> str:
    """One printable line of what a file says."""
    if text.isascii() and text.isprintable() and len(text) <= limit:
        return text
    return printable(clean(text, limit))


def sign(row: Row, look: Look) -> str:
    """The state in one cell; a warning has a sign, too."""
    signs = {"default": look.glyph("dot"), "changed": "~", "moved": "^", "unknown": "?", "wrong": "!"}
    return signs.get(row.state, " ")


def _hits(text: str, terms: Sequence[str], style: Style, look: Look) -> list[Segment]:
    """The text with the words that are searched for marked in it."""
    found = [(text.lower().find(term), len(term)) for term in terms if term in text.lower()]
    at, segments = 0, []
    for start, size in sorted(found):
        if start < at:
            continue
        segments += [Segment(text[at:start], style), Segment(text[start : start + size], look.style("match"))]
        at = start + size
    return [*segments, Segment(text[at:], style)]


class FieldList(VirtualList, inherit_bindings=False):
    """`edit`: edits the value under the cursor; it is awaited, so that the next key is for what it opens."""

    BINDINGS: ClassVar[list[BindingType]] = bindings("fields")

    def __init__(self, edit: Callable[[], Awaitable[None]]) -> None:
        self.source = FieldRows()
        self._edit = edit
        super().__init__(self.source, id="fields")

    @property
    def row(self) -> Row | None:
        """The one under the cursor."""
        return self.source.rows[self.cursor] if self.cursor < len(self.source.rows) else None

    async def action_edit(self) -> None:
        """Edit the value under the cursor."""
        if self.row is not None:
            await self._edit()

    def action_select(self) -> None:
        """What a double click does."""
        self.call_later(self.action_edit)

    def place_of_value(self) -> tuple[int, int, int]:
        """(x, y, cells) of the value under the cursor, in the list."""
        place = self.source.columns(self.size.width)
        return place.value_at, self.cursor - self.top, min(place.value, self.size.width - place.value_at)

    def set_live(self, note: str, style: str) -> None:
        """What is to be said of the value that is being typed."""
        row = self.row
        if row is not None:
            self.source.live = (row.key, note, style)
            self.refresh_row(self.cursor)

    def end_live(self) -> None:
        if self.source.live is not None:
            self.source.live = None
            self.refresh_row(self.cursor)

    def line_style(self, y: int) -> Style | None:
        if y == self.cursor and not self.has_focus and self.source.live is not None:
            return look_of(self).style("selection_idle")
        return super().line_style(y)
