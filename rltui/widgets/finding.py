"""Views on text that can be searched, and the pane that gives such a view its line to type into."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import pairwise

from rich.segment import Segment
from rich.style import Style
from textual import on
from textual.app import ComposeResult
from textual.message import Message

from rltui.model.find import SLICE_LINES, Finder, FindError
from rltui.widgets.anchored import Anchored
from rltui.widgets.lines import focus_now, look_of
from rltui.widgets.pane import Pane
from rltui.widgets.prompt import Prompt


class Finding(Anchored, inherit_bindings=False):
    """Override `texts`, `text_count`, `position` and `reveal`. Texts are searched in slices, folded ones too."""

    class FindAsked(Message):
        """`/`: whoever holds a line to type into opens it."""

        def __init__(self, view: Finding) -> None:
            super().__init__()
            self.view = view

    class Found(Message):
        """A search ended; `note` says how where that does not show: "" or a sentence."""

        def __init__(self, view: Finding, note: str) -> None:
            super().__init__()
            self.view, self.note = view, note

    def __init__(self, *, name: str | None = None, id: str | None = None, classes: str | None = None) -> None:
        super().__init__(name=name, id=id, classes=classes)
        self.finder: Finder | None = None
        self._search = 0  # its number: an older one that is still going on gives up

    # What to override

    def text_count(self) -> int:
        """How many texts there are to search."""
        raise NotImplementedError

    def texts(self, start: int, stop: int) -> Iterator[tuple[int, str]]:
        """(number, printable text) from `start` towards `stop`, which is left out; downwards if stop < start. A search
        goes on while texts come and go: of numbers that there are not any more, none."""
        raise NotImplementedError

    def position(self) -> int:
        """The number of the text that the cursor is in."""
        raise NotImplementedError

    def reveal(self, number: int) -> int:
        """Make text `number` visible, unfolded if it must be; gives its item."""
        raise NotImplementedError

    # Searching

    def find(self, text: str) -> None:
        """Search for `text` (plain or /regex/) from the cursor on; "" ends the search and its highlights."""
        self._search += 1
        had, self.finder = self.finder is not None, None
        note = ""
        try:
            self.finder = Finder(text) if text else None
        except FindError as error:
            note = str(error)
        if had or self.finder is not None:
            self.refresh_changed()
        if self.finder is not None:
            self._seek(self.position(), 1)
        else:
            self.post_message(self.Found(self, note))

    def end_search(self) -> None:
        """Give up a search that is going on: it was for what was shown before."""
        self._search += 1

    def action_find(self) -> None:
        """Ask for a line to type into."""
        self.post_message(self.FindAsked(self))

    def action_next_match(self) -> None:
        """To the next text that has it."""
        self._seek(self.position() + 1, 1)

    def action_previous_match(self) -> None:
        """To the text before that has it."""
        self._seek(self.position() - 1, -1)

    def _seek(self, start: int, way: int) -> None:
        if self.finder is None:
            self.action_find()
            return
        self._search += 1
        count = self.text_count()
        ends = (start, count if way > 0 else -1)
        self._slice(self._search, list(_slices(*ends)) + list(_slices(0 if way > 0 else count - 1, start)), 0)

    def _slice(self, search: int, slices: list[tuple[int, int]], at: int) -> None:
        """One slice, then whoever waits has his turn."""
        if search != self._search or self.finder is None:
            return
        if at >= len(slices):
            self.post_message(self.Found(self, "no match"))
            return
        try:
            number = self.finder.first(self.texts(*slices[at]))
        except FindError as error:
            self.post_message(self.Found(self, str(error)))
            return
        if number is None:
            self.call_later(self._slice, search, slices, at + 1)
            return
        item = self.reveal(number)
        rows = self.window.rows(item) if self.window.height else ()
        self.put((item, next((row for row, text in enumerate(rows) if self._spans(text)), 0)))
        self.post_message(self.Found(self, ""))

    def _spans(self, text: str) -> list[tuple[int, int]]:
        try:
            return self.finder.spans(text) if self.finder is not None else []
        except FindError:
            return []

    def painted(self, text: str, base: Style, parts: list[tuple[int, int, Style]]) -> list[Segment]:
        """`text` in style `base`, the `parts` (start, end, style) over it, the matches of the search over all."""
        match = look_of(self).style("match")
        return paint(text, base, [*parts, *((start, end, match) for start, end in self._spans(text))])


def paint(text: str, base: Style, parts: list[tuple[int, int, Style]]) -> list[Segment]:
    """Segments of `text`; of parts (start, end, style) that overlap the later one lies above."""
    if not parts:
        return [Segment(text, base)]
    edges = sorted({0, len(text), *(min(max(edge, 0), len(text)) for part in parts for edge in part[:2])})
    segments = []
    for start, end in pairwise(edges):
        style = base
        for begin, stop, over in parts:
            if begin <= start and end <= stop:
                style += over
        segments.append(Segment(text[start:end], style))
    return segments


def _slices(start: int, stop: int) -> Iterator[tuple[int, int]]:
    way = SLICE_LINES if stop >= start else -SLICE_LINES
    for at in range(start, stop, way):
        yield at, min(at + way, stop) if way > 0 else max(at + way, stop)


class FindPane(Pane):
    """A pane with one view and, at its bottom, the line that searches it as it is typed.

    How a search ended stands in the subtitle; what else a view has to say goes to `set_info`.
    """

    def __init__(self, view: Finding, *, title: str = "", id: str | None = None, classes: str | None = None) -> None:
        super().__init__(title=title, id=id, classes=classes)
        self.view = view
        self._prompt = Prompt("find", placeholder="text or /regex/")

    def compose(self) -> ComposeResult:
        """The view above, the line below."""
        yield self.view
        yield self._prompt

    @on(Finding.FindAsked)
    def _ask(self, event: Finding.FindAsked) -> None:
        event.stop()
        self._prompt.open()
        if self._prompt.value:
            self.view.find(self._prompt.value)

    @on(Finding.Found)
    def _found(self, event: Finding.Found) -> None:
        event.stop()
        self._prompt.set_note(event.note, "watch")
        self.set_subtitle("" if self._prompt.is_open else event.note)

    @on(Prompt.Changed)
    def _typed(self, event: Prompt.Changed) -> None:
        event.stop()
        self.view.find(event.value)

    @on(Prompt.Submitted)
    def _done(self, event: Prompt.Submitted) -> None:
        event.stop()
        self._prompt.close()
        focus_now(self.view)

    @on(Prompt.Cancelled)
    def _over(self, event: Prompt.Cancelled) -> None:
        event.stop()
        self.view.find("")
        focus_now(self.view)
