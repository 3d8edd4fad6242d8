"""The palette: every action, run, metric and theme by a few letters of its name."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial
from typing import ClassVar

from rich.cells import cell_len
from rich.segment import Segment
from textual import on
from textual.app import App, ComposeResult
from textual.binding import BindingType
from textual.screen import Screen
from textual.widgets import Input

from rltui.actions.contexts import CONTEXTS
from rltui.actions.fuzzy import fold, match_folded
from rltui.actions.guide import key_cell
from rltui.actions.table import ACTIONS
from rltui.look import Look
from rltui.screens.dialog import Dialog
from rltui.text import clean
from rltui.text_lines import crop, printable
from rltui.widgets.bindings import bindings, keymap_of, reachable, refusal
from rltui.widgets.lines import focus_now, look_of
from rltui.widgets.pane import Pane
from rltui.widgets.virtual_list import VirtualList

KIND_CELLS = 11
MOST_CHARS = 200  # of a label or detail
IN_LABEL = 5.0  # what a match in the label alone is worth more
LABEL_CELLS = 18  # a longer label takes the room of its detail


@dataclass(frozen=True, slots=True)
class Entry:
    """One line of the palette.

    Attributes:
        kind: what sort of thing: the place of an action, run, metric, theme, field.
        label: its name; from a run it is hostile text, which is cleaned here.
        run: does it; called after the palette is gone.
        detail: a sentence beside it.
        keys: the keys that do the same.
        why_not: the reason for which it cannot be done now.
    """

    kind: str
    label: str
    run: Callable[[], object]
    detail: str = ""
    keys: str = ""
    why_not: str = ""


def action_entries(app: App, screen: Screen) -> list[Entry]:
    """An entry for each action of the table, done where the focus of `screen` is. Ask before the palette opens."""
    keymap, doers, look = keymap_of(app), reachable(screen), getattr(app, "look", None)
    ascii = bool(look and look.ascii)
    labels = Counter((action.context, action.label) for action in ACTIONS)
    entries = []
    for action in ACTIONS:
        if not action.palette:
            continue
        node, common = doers.get(action.id), action.context in ("app", "screen")
        place = "on other screens" if common else f"in {CONTEXTS[action.context].title}"
        why_not = refusal(app, action) or ("" if node is not None else f"works {place}")
        run = partial(app.call_later, app.run_action, action.name, node)
        keys = key_cell(keymap.of(action.id), ascii=ascii)
        label = action.name.replace("_", " ") if labels[action.context, action.label] > 1 else action.label
        entries.append(Entry("app" if common else action.context, label, run, action.help, keys, why_not))
    return entries


@dataclass(frozen=True, slots=True)
class Found:
    """An entry that fits, and the letters of its label that match."""

    entry: Entry
    at: tuple[int, ...] = ()


class Index:
    """Entries made ready to be searched at each key: cleaned and folded once."""

    def __init__(self, entries: Sequence[Entry]) -> None:
        self.entries = list(entries)
        self._labels = [fold(_text(entry.label)) for entry in entries]
        self._texts = [
            fold(f"{label} {entry.kind} {_text(entry.detail)}")
            for label, entry in zip(self._labels, entries, strict=True)
        ]

    def find(self, query: str) -> list[Found]:
        """The entries that fit, best first; what cannot be done comes last. No query: all, in their order."""
        terms = fold(query).split()
        if not terms:
            return [Found(entry) for entry in sorted(self.entries, key=lambda entry: bool(entry.why_not))]
        ranked: list[tuple[bool, float, int, tuple[int, ...]]] = []
        for number, (label, text) in enumerate(zip(self._labels, self._texts, strict=True)):
            hit, bonus = match_folded(terms, label), IN_LABEL
            if hit is None:
                hit, bonus = match_folded(terms, text), 0.0
            if hit is not None and hit.score + bonus > 0:
                at = tuple(place for place in hit.at if place < len(label))
                ranked.append((bool(self.entries[number].why_not), -hit.score - bonus, number, at))
        ranked.sort()
        return [Found(self.entries[number], at) for _, _, number, at in ranked]


class _Rows:
    def __init__(self, rows: Sequence[Found]) -> None:
        self.rows = rows

    def __len__(self) -> int:
        return len(self.rows)

    def cells(self, i: int, width: int, look: Look) -> list[Segment]:
        entry, more = self.rows[i].entry, look.glyph("ellipsis")
        dim, keys = look.style("dim"), crop(_text(entry.keys), max(0, width // 3), more=more)
        room = max(0, width - KIND_CELLS - 2 - cell_len(keys) - 2)
        label = crop(_text(entry.label), room, more=more)
        gap = max(2, LABEL_CELLS - cell_len(label)) if room > LABEL_CELLS + 12 else 2
        room -= cell_len(label) + gap
        why_not = crop(_text(entry.why_not), room, more=more)
        before = f" {look.glyph('dot')} " if why_not else ""
        detail = crop(before + _text(entry.detail), room - cell_len(why_not), more=more)
        kind = crop(_text(entry.kind), KIND_CELLS - 1, more=more)
        segments = [Segment(f" {kind}{' ' * (KIND_CELLS - cell_len(kind))}", dim)]
        segments += _marked(label, self.rows[i].at, look, dimmed=bool(entry.why_not))
        segments += [Segment(" " * gap), Segment(why_not, look.style("watch")), Segment(detail, dim)]
        used = sum(segment.cell_length for segment in segments)
        return [*segments, Segment(" " * max(1, width - 1 - used - cell_len(keys))), Segment(keys, look.style("key"))]


def _text(value: str) -> str:
    """One safe line of the width that the compositor counts."""
    if value.isascii() and value.isprintable() and len(value) <= MOST_CHARS and "  " not in value:
        return value.strip()
    return printable(clean(value, MOST_CHARS))


def _marked(label: str, at: tuple[int, ...], look: Look, *, dimmed: bool) -> list[Segment]:
    plain, hit = look.style("dim" if dimmed else "text"), look.style("match")
    places = set(at)
    return [Segment(char, hit if place in places else plain) for place, char in enumerate(label)]


class PaletteScreen(Dialog["Entry | None"], inherit_bindings=False):
    """Dismissed with the entry that was chosen, whose `run` the app then calls; None for escape."""

    BINDINGS: ClassVar[list[BindingType]] = bindings("palette")
    DEFAULT_CSS = """
    PaletteScreen { align: center top; background: transparent; }
    PaletteScreen > Pane { width: 100; max-width: 96%; height: 24; max-height: 90%; margin: 1 0; }
    PaletteScreen > Pane { background: $background; }
    PaletteScreen Input, PaletteScreen Input:focus {
        width: 1fr; height: 1; border: none; padding: 0 1; background: transparent; background-tint: transparent;
    }
    """

    def __init__(self, entries: Sequence[Entry], query: str = "") -> None:
        super().__init__()
        self._index = Index(entries)
        self._input = Input(value=query, compact=True, select_on_focus=False, placeholder="type a few letters")
        self._input.cursor_blink = False
        self._list = VirtualList()
        self._list.can_focus = False  # keys go to the line above it
        self._found: list[Found] = []

    def compose(self) -> ComposeResult:
        """The line to type in, and what fits."""
        yield Pane(self._input, self._list, title="Palette")

    def opened(self) -> None:
        """Everything is there before the first letter."""
        self._show(self._input.value)
        focus_now(self._input)

    @on(Input.Changed)
    def _typed(self, event: Input.Changed) -> None:
        event.stop()
        self._show(event.value)

    @on(Input.Submitted)
    def _submitted(self, event: Input.Submitted) -> None:
        event.stop()
        self.action_run()

    @on(VirtualList.Selected)
    def _clicked(self, event: VirtualList.Selected) -> None:
        event.stop()
        self.action_run()

    def _show(self, query: str) -> None:
        self._found = self._index.find(query)
        self._list.set_rows(_Rows(self._found))
        pane = self.query_one(Pane)
        pane.set_info(f"{len(self._found)} of {len(self._index.entries)}")
        pane.set_subtitle("" if self._found else "nothing is called so; escape leaves")

    def action_run(self) -> None:
        """Choose the line, or say why it cannot be."""
        if not self._found:
            return
        entry = self._found[self._list.cursor].entry
        if entry.why_not:
            why = f"{clean(entry.label, 60)}: {clean(entry.why_not, 120)}"
            self.query_one(Pane).set_subtitle(f"{look_of(self).glyph('watch')} {why}")
        else:
            self.dismiss(entry)

    def action_close(self) -> None:
        """Leave."""
        self.dismiss(None)

    def action_up(self) -> None:
        """The line above."""
        self._list.action_up()

    def action_down(self) -> None:
        """The line below."""
        self._list.action_down()

    def action_page_up(self) -> None:
        """A page up."""
        self._list.action_page_up()

    def action_page_down(self) -> None:
        """A page down."""
        self._list.action_page_down()
