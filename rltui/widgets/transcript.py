"""One episode by turns: folds, roles, rewards. Only what is in view has ever been wrapped."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING, ClassVar

from rich.cells import cell_len
from rich.segment import Segment
from rich.style import Style
from textual.binding import BindingType
from textual.message import Message

from rltui.model.paragraphs import TokenText
from rltui.model.transcript import VIEWS
from rltui.model.xray import MODES
from rltui.text_lines import PIECE, crop, pad, printable, wrap
from rltui.widgets.bindings import allowed, bindings
from rltui.widgets.finding import Finding
from rltui.widgets.lines import look_of
from rltui.widgets.token_row import Spot, mono, spots_in, strip_text, text_segments

if TYPE_CHECKING:
    from rltui.model.paragraphs import Paragraph
    from rltui.model.transcript import Item
    from rltui.model.transcript import Transcript as Model
    from rltui.model.xray import Xray
    from rltui.sources.base import Json

_ROLE_CELLS = 11  # "assistant", and a gap
_NARROW = 48  # below this width text has no column of roles before it
_INDENT = 2


class Transcript(Finding, inherit_bindings=False):
    """Shows an episode; enter folds, e and x open and close all turns."""

    BINDINGS: ClassVar[list[BindingType]] = bindings("list", "transcript")

    class Moved(Message):
        """The cursor is in another turn, counted from 0; None: above them."""

        def __init__(self, view: Transcript, turn: int | None) -> None:
            super().__init__()
            self.view, self.turn = view, turn

    class Read(Message):
        """Another token is under the cursor, or the tokens show in other colours."""

        def __init__(self, view: Transcript) -> None:
            super().__init__()
            self.view = view

    def __init__(self, *, name: str | None = None, id: str | None = None, classes: str | None = None) -> None:
        super().__init__(name=name, id=id, classes=classes)
        self.model: Model | None = None
        self.mode = MODES[0]  # what the colours of tokens say
        self._column = 0  # of the cursor in a row of tokens
        self._turn: int | None = None
        self._texts: list[Item] | None = None

    def show(self, episode: Json, updates: Json | None = None, xray: Xray | None = None) -> None:
        """Show an episode (its text line) with what became known later; from its top, unless it is the same one."""
        from rltui.model.transcript import Transcript as Model

        same = self.model is not None and self.model.episode.get("cid") == episode.get("cid")
        view = self.model.view if self.model is not None else "conversation"
        self.model = Model(episode, updates or {}, view, xray)
        if not same:
            self.end_search()
            self.cursor = self.window.top = (0, 0)
        self._renew()

    def clear(self) -> None:
        """Show nothing."""
        self.end_search()
        self.model = None
        self.cursor = self.window.top = (0, 0)
        self._renew()

    @property
    def turn(self) -> int | None:
        """The turn that the cursor is in, counted from 0."""
        return self.model.turn_at(self.cursor[0]) if self.model is not None else None

    def go_to_turn(self, turn: int) -> None:
        """The head of turn `turn` (from 0) comes to the top of the view, as far as there is text below it."""
        items = self.model.items if self.model is not None else []
        at = next((i for i, item in enumerate(items) if item.fold is not None and item.fold.turn == turn), None)
        if at is not None:
            self.window.top = (at, 0)
            self.put((at, 0))

    # Keys

    def action_toggle(self) -> None:
        """Fold or open what is at the cursor."""
        if self.model is not None and self.model.items:
            at = self.model.toggle(self.cursor[0])
            self.cursor = (at, 0)
            self._renew()

    def action_open_all(self) -> None:
        """Open every turn."""
        if self.model is not None:
            self._kept(self.model.open_all)

    def action_close_all(self) -> None:
        """Fold every turn."""
        if self.model is not None:
            self._kept(self.model.close_all)

    def action_view(self) -> None:
        """The conversation, its tokens, or the record."""
        if (model := self.model) is not None:
            self._set_view(VIEWS[(VIEWS.index(model.view) + 1) % len(VIEWS)])

    def action_color(self) -> None:
        """The next colour mode of the tokens; from another view, the tokens."""
        if self.model is None:
            return
        if self.model.view != "tokens":
            self._set_view("tokens")
        else:
            self.mode = MODES[(MODES.index(self.mode) + 1) % len(MODES)]
            self.window.forget()
            self.repaint(all=True)
            self.post_message(self.Read(self))

    def _set_view(self, view: str) -> None:
        model = self.model
        assert model is not None
        self._column = 0
        self._kept(lambda: model.set_view(view))
        if view == "tokens":
            first = next((i for i, item in enumerate(model.items) if isinstance(item.paragraph, TokenText)), None)
            if first is not None and self.turn is None:
                self.put((first, 0))
        self.post_message(self.Read(self))

    def check_action(self, action: str, parameters: tuple[object, ...]) -> bool | None:
        """Single tokens can be walked where they show; elsewhere the keys go by."""
        if action in ("previous_token", "next_token"):
            return self.model is not None and self.model.view == "tokens"
        return allowed(self, action)

    def action_previous_token(self) -> None:
        """The token before."""
        self._walk(-1)

    def action_next_token(self) -> None:
        """The token after."""
        self._walk(1)

    def _walk(self, way: int) -> None:
        spots = self._spots(self.cursor)
        here = next((k for k, (a, b, _) in enumerate(spots) if a <= self._column < b), None)
        if here is not None and 0 <= here + way < len(spots):
            self._column = spots[here + way][0]
            self.refresh_changed()
            self.post_message(self.Read(self))
            return
        mine = spots[here][2] if here is not None else None
        place, before = self.window.walk(self.cursor, way), self.cursor
        # A token that goes on in the next row is walked once.
        while place != before and all(i == mine for _, _, i in self._spots(place)):
            place, before = self.window.walk(place, way), place
        found = [spot for spot in self._spots(place) if spot[2] != mine]
        if found:
            self._column = found[0 if way > 0 else -1][0]
            self.put(place)

    @property
    def token(self) -> tuple[TokenText, int] | None:
        """The line and the number of the token under the cursor."""
        spots = self._spots(self.cursor)
        if not spots or self.model is None:
            return None
        i = next((i for a, b, i in spots if a <= self._column < b), spots[-1][2])
        paragraph = self.model.items[self.cursor[0]].paragraph
        return (paragraph, i) if isinstance(paragraph, TokenText) else None

    def _spots(self, place: tuple[int, int]) -> list[Spot]:
        """The tokens of a row of the text; none of a strip."""
        if self.model is None or not self.window.height or place[0] >= len(self.model.items):
            return []
        paragraph = self.model.items[place[0]].paragraph
        if not isinstance(paragraph, TokenText) or (mono(look_of(self)) and place[1] % 2):
            return []
        rows, width = self.window.rows(place[0]), max(1, self.size.width)
        step = 2 if mono(look_of(self)) else 1
        start = sum(len(self._bare(row, width)) for row in rows[: place[1] : step])
        return spots_in(paragraph, start, start + len(self._bare(rows[place[1]], width)))

    def _bare(self, row: str, width: int) -> str:
        return row[self._lead(width) :]

    def action_copy(self) -> None:
        """The turn under the cursor, or what stands above the turns."""
        if self.model is not None:
            turn, model = self.turn, self.model
            lines = [
                "  ".join(filter(None, (_shown(item.paragraph.label), _shown(item.paragraph.text))))
                for i, item in enumerate(model.items)
                if model.turn_at(i) == turn
            ]
            self.app.copy("\n".join(lines), "turn" if turn is not None else "summary")  # type: ignore[attr-defined]

    def moved(self) -> None:
        """Say when another turn is reached, or another token."""
        if self.model is not None and self.model.view == "tokens":
            self.refresh_changed()
            self.post_message(self.Read(self))
        if self.turn != self._turn:
            self._turn = self.turn
            self.post_message(self.Moved(self, self._turn))

    # Laying out

    def item_count(self) -> int:
        """Paragraphs that are not folded away."""
        return len(self.model.items) if self.model is not None else 0

    def lay_out(self, item: int, width: int) -> list[str]:
        """Roles in a column, text beside it; the head of a turn is a rule with its numbers at the right."""
        assert self.model is not None
        found = self.model.items[item]
        if found.fold is not None:
            return [self._head(found, width)]
        label, lead = self._label(found.paragraph, width), " " * self._lead(width)
        if isinstance(found.paragraph, TokenText):
            return self._token_rows(found.paragraph, label, lead, width)
        rows = [lead + row for row in wrap(_shown(found.paragraph.text), width - len(lead))]
        if not label:
            return rows
        if width < _NARROW:
            return [crop(label, width), *rows]
        return [label + rows[0].removeprefix(lead), *rows[1:]]

    def _token_rows(self, paragraph: TokenText, label: str, lead: str, width: int) -> list[str]:
        """Rows cut at the cell, so that each character knows its token; without colours each with its strip."""
        look, xray = look_of(self), self.model.xray if self.model is not None else None
        found, start = [], 0
        for text in wrap(paragraph.text, width - len(lead), words=False):
            found.append((label if label and not found and width >= _NARROW else lead) + text)
            if mono(look) and xray is not None:
                spots = spots_in(paragraph, start, start + len(text))
                found.append(lead + strip_text(look, xray, self.mode, paragraph, text, spots))
            start += len(text)
        return found

    def _token_segments(self, paragraph: TokenText, item: int, row: int, text: str, width: int) -> list[Segment]:
        look, lead = look_of(self), self._lead(width)
        assert self.model is not None and self.model.xray is not None
        head = Segment(text[:lead], look.style(paragraph.label_style))
        if mono(look) and row % 2:
            return [Segment(text, look.style("dim"))]
        spots, cursor = self._spots((item, row)), None
        if (item, row) == self.cursor and (token := self.token) is not None:
            cursor = token[1]
        xray = self.model.xray
        return [head, *text_segments(look, xray, self.mode, paragraph, text[lead:], spots, cursor)]

    def row_segments(self, item: int, row: int, text: str, width: int) -> list[Segment]:
        """Dim labels, roles in their colours."""
        assert self.model is not None
        found, look = self.model.items[item], look_of(self)
        paragraph = found.paragraph
        if isinstance(paragraph, TokenText):
            return self._token_segments(paragraph, item, row, text, width)
        base = look.style(paragraph.style)
        if found.fold is not None:
            return self._head_segments(found, text, base)
        lead = self._lead(width)
        if paragraph.label and row == 0:
            lead = len(text) if width < _NARROW else len(self._label(paragraph, width))
        return [Segment(text[:lead], look.style(paragraph.label_style)), *self.painted(text[lead:], base, [])]

    @staticmethod
    def _lead(width: int) -> int:
        """Cells before the text of a paragraph."""
        return 1 if width < _NARROW else _INDENT + _ROLE_CELLS

    @staticmethod
    def _label(paragraph: Paragraph, width: int) -> str:
        """The label in its column; in a narrow view it has a row of its own."""
        label = _shown(paragraph.label)
        if not label or width < _NARROW:
            return label
        return " " * _INDENT + pad(crop(label, _ROLE_CELLS - 1), _ROLE_CELLS)

    def _head(self, item: Item, width: int) -> str:
        look, paragraph, fold = look_of(self), item.paragraph, item.fold
        assert fold is not None
        mark = look.glyph("fold_open" if fold.open else "fold_closed") + " "
        right = _shown(paragraph.right)
        if fold.turn is not None:
            name = mark + _shown(paragraph.text) + " "
            fill = width - len(name) - cell_len(right) - 1
            if fill < 1:
                return crop(name + right, width)
            return name + look.glyph("hline") * fill + " " + right
        label = pad(_shown(paragraph.label), _ROLE_CELLS) if width >= _NARROW else _shown(paragraph.label) + " "
        room = width - _INDENT - cell_len(label) - (cell_len(right) + 2 if right else 0)
        text = _shown(paragraph.text) if not (fold.open and fold.thinking) else ""
        if room < 8:
            return crop(mark + label + text, width)
        return mark + label + (pad(text, room) + "  " + right if right else crop(text, room))

    def _head_segments(self, item: Item, text: str, base: Style) -> list[Segment]:
        look, paragraph = look_of(self), item.paragraph
        dim = look.style("dim")
        if item.fold is not None and item.fold.turn is not None:
            name = 2 + len(_shown(paragraph.text))
            rule = max(name, text.rfind(look.glyph("hline")) + 1)
            return [
                Segment(text[:2], look.style("accent")),
                *self.painted(text[2:name], base, []),
                Segment(text[name:rule], look.style("border")),
                *self.painted(text[rule:], dim, []),
            ]
        label = 2 + min(len(_shown(paragraph.label)), len(text))
        return [
            Segment(text[:2], look.style("accent")),
            Segment(text[2:label], look.style(paragraph.label_style)),
            *self.painted(text[label:], base, []),
        ]

    # Searching

    def text_count(self) -> int:
        """Paragraphs, folded ones too."""
        return len(self._all())

    def texts(self, start: int, stop: int) -> Iterator[tuple[int, str]]:
        """The text of each."""
        found = self._all()
        numbers = range(start, stop, 1 if stop >= start else -1)
        return ((i, _shown(found[i].paragraph.text)) for i in numbers if i < len(found))

    def position(self) -> int:
        """The paragraph of the cursor among all."""
        if self.model is None or not self.model.items:
            return 0
        here = self.model.items[self.cursor[0]].paragraph
        return next((i for i, item in enumerate(self._all()) if item.paragraph is here), 0)

    def reveal(self, number: int) -> int:
        """Unfold what the paragraph lies in."""
        assert self.model is not None
        before = len(self.model.items)
        at = self.model.reveal(self._all()[number])
        if len(self.model.items) != before:
            self.repaint(all=True)
        return at

    # Within

    def _all(self) -> list[Item]:
        if self._texts is None:
            self._texts = self.model.all_items() if self.model is not None else []
        return self._texts

    def _kept(self, change: Callable[[], None]) -> None:
        """Fold or unfold much; the cursor stays in its turn."""
        turn = self.turn
        change()
        self.cursor = (0, 0)
        self._renew()
        if turn is not None:
            self.go_to_turn(turn)

    def _renew(self) -> None:
        self._texts = None
        self.window.forget()
        if self.window.height:
            self.cursor = self.window.inside(self.cursor)
            self._into_view()
        self.repaint(all=True)
        self.moved()


def _shown(text: str) -> str:
    """A raw text of a record, clean; what is no paragraph by itself has a limit here."""
    return printable(text[:PIECE])
