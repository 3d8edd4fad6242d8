"""The parts of the Compare screen and where they stand: two pages of two parts, or one part at a time."""

from __future__ import annotations

from textual import events
from textual.app import ComposeResult
from textual.containers import Horizontal
from textual.widget import Widget

from rltui.screens.base import AppScreen
from rltui.screens.compare.config_rows import ConfigRows
from rltui.screens.compare.curves import Curves
from rltui.screens.compare.episodes import Sides
from rltui.screens.compare.runs import OutcomeRows, RunsHead, Sentence
from rltui.screens.compare.seeds import SeedHead, SeedList, SeedRows
from rltui.widgets.instead import Instead
from rltui.widgets.lines import focus_now
from rltui.widgets.pane import Pane
from rltui.widgets.prompt import Prompt
from rltui.widgets.virtual_list import VirtualList

NARROW, WIDE = 100, 150  # columns: below, one part at a time; from here on the sentence has one line
CONFIG, CURVES, SEEDS, SIDES = range(4)
PARTS = ("#config-pane", "Curves", "#seeds-pane", "Sides")  # selectors


class CompareParts(AppScreen):
    DEFAULT_CSS = """
    CompareParts #outcome { height: auto; }
    CompareParts #compared { height: 2; }
    CompareParts RunsHead, CompareParts SeedHead { height: 1; }
    CompareParts Sentence { height: 1; }
    CompareParts #parts { height: 1fr; }
    CompareParts #config-pane { width: 2fr; }
    CompareParts #seeds-pane { width: 2fr; }
    CompareParts > Instead { display: none; height: 1fr; padding: 1 0; }
    CompareParts.-none > Instead { display: block; }
    CompareParts.-none > #outcome, CompareParts.-none > #parts { display: none; }
    CompareParts #parts Pane > Instead { display: none; height: 1fr; }
    CompareParts #parts Pane.-none > Instead { display: block; }
    CompareParts #parts Pane.-none > VirtualList, CompareParts #parts Pane.-none > SeedHead { display: none; }
    """

    def __init__(self) -> None:
        super().__init__(name="compare")
        self.outcome_rows, self.config_rows, self.seed_rows = OutcomeRows(), ConfigRows(), SeedRows()
        self.front = CONFIG

    def body(self) -> ComposeResult:
        yield Instead()
        with Pane(title="Runs", id="outcome"):
            yield RunsHead()
            yield VirtualList(self.outcome_rows, id="compared")
            yield Sentence()
        with Horizontal(id="parts"):
            with Pane(title="Config", id="config-pane"):
                yield VirtualList(self.config_rows, id="config")
                yield Instead()
            yield Curves()
            with Pane(title="Seeds", id="seeds-pane"):
                yield SeedHead(self.seed_rows)
                yield SeedList(self.seed_rows, id="seeds")
                yield Instead()
            yield Sides()
        yield Prompt("/", placeholder="regular expression of metric names", id="curve-filter")

    def on_resize(self, event: events.Resize) -> None:
        super().on_resize(event)
        self.place_parts()

    @property
    def narrow(self) -> bool:
        """Whether one part shows at a time."""
        return self.size.width < NARROW

    def shown(self, part: int) -> bool:
        """Whether a part has a place now."""
        return part == self.front if self.narrow else part // 2 == self.front // 2

    def part(self, part: int) -> Widget:
        """The widget of a part."""
        return self.query_one(PARTS[part])

    def place_parts(self) -> None:
        """Give the parts their place and the runs their height."""
        count, width, height = len(self.outcome_rows), self.size.width, self.size.height
        words = 3 if self.narrow else 1 if width >= WIDE else 2
        self.query_one("#compared").styles.height = count
        self.query_one(Sentence).styles.height = words
        for part in range(len(PARTS)):
            self.part(part).display = self.shown(part)
        room = height - 2 - (count + 1 + words + 2)
        self.query_one(Curves).fit_to(width if self.narrow else width * 3 // 5, 1 if self.narrow else room)

    def bring(self, part: int) -> None:
        """Show a part."""
        if self.maximized is not None:
            self.minimize()
        if not self.shown(part):
            self.front = part
            self.place_parts()
            self.changed_front()
        self.front = part

    def enter(self, part: int) -> None:
        """Show a part and put the focus into it."""
        self.bring(part)
        if part == CURVES:
            page = self.query_one(Curves).page
            if page:
                focus_now(page[0].chart)
        elif part == SIDES:
            self.query_one(Sides).focus_first()
        else:
            focus_now(self.query_one("#config" if part == CONFIG else "#seeds"))

    def changed_front(self) -> None:
        """Another part is in front: what was not drawn while it was hidden is due."""

    @property
    def focused_part(self) -> int | None:
        """The part with the focus; None: the runs have it, or nobody."""
        return next((i for i in range(len(PARTS)) if self.part(i).has_pseudo_class("focus-within")), None)

    def _turn(self, by: int) -> None:
        """Where one part shows at a time, the next one comes to the front."""
        if not self.narrow or self.maximized is not None:
            super()._turn(by)
            return
        part = self.focused_part
        at = (-1 if part is None else part) + by
        if 0 <= at < len(PARTS) or (part is None and by < 0):
            self.enter(at % len(PARTS))
        else:
            focus_now(self.query_one("#compared"))
