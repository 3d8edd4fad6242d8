"""Episodes of one seed side by side: of each run, or of each evaluation of a run."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from textual import events, on
from textual.app import ComposeResult
from textual.containers import Horizontal
from textual.content import Content
from textual.style import Style

from rltui.model.evaluations import Played
from rltui.screens.runs_line import reward
from rltui.text import clean
from rltui.text_lines import printable
from rltui.widgets.finding import FindPane
from rltui.widgets.instead import Instead
from rltui.widgets.lines import focus_now, look_of
from rltui.widgets.transcript import Transcript

LEAST = 34  # cells of a column with its border
MOST = 6  # columns


@dataclass(frozen=True)
class Side:
    """What a column shows: `run` gives colour and marker; `played` are the repeats, the first of which is shown."""

    run: int
    title: str
    played: tuple[Played, ...]


class SidePane(FindPane):
    """One column."""

    def __init__(self) -> None:
        super().__init__(Transcript())
        self.side: Side | None = None

    def compose(self) -> ComposeResult:
        """Why there is no episode, then what every such pane has."""
        yield Instead()
        yield from super().compose()

    def show(self, side: Side, found: tuple[dict[str, Any], dict[str, Any]] | None) -> None:
        """`found`: the text of the episode and its updates."""
        self.side = side
        look = look_of(self)
        marker = Style.from_rich_style(look.series(side.run))
        strong = Style.from_rich_style(look.style("title"))
        words = printable(clean(side.title, 80))
        self.set_title(Content.assemble((look.marker(side.run), marker), " ", (words, strong)))
        played = side.played
        self.set_info(reward(played[0].reward).strip() if played else "")
        self.set_subtitle(f"repeat 1 of {len(played)}" if len(played) > 1 else "")
        self.set_class(found is None, "-none")
        if found is None:
            self.query_one(Transcript).clear()
            why = "The text of the episode is gone" if played else "This seed was not played here"
            self.query_one(Instead).say((why, "dim"))
        else:
            self.query_one(Transcript).show(*found)


class Sides(Horizontal):
    """Turns stay side by side: where one column goes to a turn, the others follow."""

    DEFAULT_CSS = """
    Sides { width: 3fr; height: 1fr; }
    Sides Instead { display: none; }
    Sides .-none Instead { display: block; }
    Sides .-none Transcript { display: none; }
    """

    def __init__(self) -> None:
        super().__init__()
        self._sides: Sequence[Side] = ()
        self._found: Sequence[tuple[dict[str, Any], dict[str, Any]] | None] = ()
        self._first = 0

    def compose(self) -> ComposeResult:
        """All that may be needed; those that do not fit are hidden."""
        for _ in range(MOST):
            yield SidePane()

    @property
    def fitting(self) -> int:
        """Columns that there is room for."""
        return max(1, min(MOST, self.size.width // LEAST))

    @property
    def place(self) -> str:
        """ "1-3 of 4"; "" where all of them show."""
        count, most = len(self._sides), self.fitting
        return f"{self._first + 1}-{min(count, self._first + most)} of {count}" if count > most else ""

    def show(
        self, sides: Sequence[Side], found: Sequence[tuple[dict[str, Any], dict[str, Any]] | None], *, last: bool
    ) -> None:
        """`last`: begin with the last columns."""
        if len(sides) != len(self._sides):
            self._first = max(0, len(sides) - self.fitting) if last else 0
        self._sides, self._found = sides, found
        self._lay_out()

    def go_on(self, by: int) -> None:
        """So many columns on: with the focus, then with the view."""
        panes = [pane for pane in self.query(SidePane) if pane.display]
        at = next((i for i, pane in enumerate(panes) if pane.has_pseudo_class("focus-within")), None)
        if at is not None and 0 <= at + by < len(panes):
            focus_now(panes[at + by].query_one(Transcript))
            return
        first = max(0, min(len(self._sides) - self.fitting, self._first + by))
        if first != self._first:
            self._first = first
            self._lay_out()

    def focus_first(self) -> None:
        """Put the focus on the first episode that there is."""
        for pane in self.query(SidePane):
            if pane.display and not pane.has_class("-none"):
                focus_now(pane.query_one(Transcript))
                return

    def on_resize(self, event: events.Resize) -> None:
        self._lay_out()

    def _lay_out(self) -> None:
        count = min(self.fitting, len(self._sides))
        self._first = max(0, min(self._first, len(self._sides) - count))
        for i, pane in enumerate(self.query(SidePane)):
            pane.display = i < max(1, count)
            if i < count:
                at = self._first + i
                pane.show(self._sides[at], self._found[at])
            pane.set_subtitle(self.place if self.place and i == count - 1 else pane.border_subtitle or "")

    @on(Transcript.Moved)
    def _moved(self, event: Transcript.Moved) -> None:
        if event.turn is None or not event.view.has_focus:
            return
        for pane in self.query(SidePane):
            view = pane.query_one(Transcript)
            if pane.display and view is not event.view and view.turn != event.turn:
                view.go_to_turn(event.turn)
