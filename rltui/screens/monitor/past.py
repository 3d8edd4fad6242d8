"""The past of a run: the monitor's tabs as they were at a time, with a slider to move in it. Nothing is steered."""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import TYPE_CHECKING, ClassVar

from textual import events, on
from textual.app import ComposeResult
from textual.binding import BindingType
from textual.containers import Container
from textual.message import Message

from rltui.screens.messages import RunChanged, RunLost, RunOpened
from rltui.screens.monitor.bars import ProgressBar, TabBar
from rltui.screens.monitor.screen import MonitorScreen
from rltui.screens.own_app import own_app
from rltui.text import width
from rltui.widgets.bar import Bar, Part
from rltui.widgets.bindings import bindings
from rltui.widgets.lines import look_of

if TYPE_CHECKING:
    from rltui.past import PastRun

LEAST = 12  # cells of a slider; below that it is left out
TENTH = 10


class Slider(Bar):
    """Where in the time of the run it is."""

    class Moved(Message):
        """Another place is wanted."""

        def __init__(self, place: int) -> None:
            super().__init__()
            self.place = place

    def __init__(self, past: PastRun) -> None:
        super().__init__()
        self._past = past
        self._track = (0, 0)  # first cell, and how many

    def parts(self, width_: int) -> list[Part]:
        look, past = look_of(self), self._past
        if past.why and not past.last:
            return [(" THE PAST ", look.style("replay")), (" it cannot be read", look.style("watch"))]
        if not past.read:
            return [(" THE PAST ", look.style("replay")), (" reading the run", look.style("dim"))]
        at = past.time
        when = time.strftime("%Y-%m-%d %H:%M:%S", time.localtime(at)) if at is not None else "no step was done"
        words = f" {when}  step {past.step} of {past.last_step} " if at is not None else f" {when} "
        parts: list[Part] = [(" THE PAST ", look.style("replay")), (words, look.style("text"))]
        used = sum(width(text) for text, _ in parts)
        cells = width_ - used - 2
        self._track = used, cells
        if cells >= LEAST and past.last:
            knob = round((cells - 1) * past.place / past.last)
            line = look.glyph("hline")
            parts.append((line * knob, look.style("accent")))
            parts.append((look.marker(0), look.style("accent")))
            parts.append((line * (cells - 1 - knob), look.style("grid")))
        return parts

    def on_click(self, event: events.Click) -> None:
        first, cells = self._track
        if cells >= LEAST and first <= event.x < first + cells:
            self.post_message(self.Moved(round(self._past.last * (event.x - first) / (cells - 1))))


class PastTabBar(TabBar):
    """The tabs; nothing here is fresh, and stale only what is lost."""

    def _freshness(self) -> tuple[str, str]:
        found = super()._freshness()
        return found if found[1] == "watch" else ("past", "dim")


class PastScreen(MonitorScreen):
    BINDINGS: ClassVar[list[BindingType]] = bindings("past")

    def __init__(self, past: PastRun, tab: str = "") -> None:
        super().__init__(past)
        self._past = past
        self._wanted = tab
        self._early: list[Callable[[], int]] = []  # places that were asked for before the run was read

    def body(self) -> ComposeResult:
        yield Slider(self._past)
        yield PastTabBar(self._past.period_s)
        yield ProgressBar()
        yield Container(id="tabs")

    def on_mount(self) -> None:
        self._past.begin(self.post_message)

    def on_unmount(self) -> None:
        self._past.close()

    @on(RunOpened)
    @on(RunChanged)
    @on(RunLost)
    def _came(self) -> None:
        while self._early and self._past.read:
            self._go(self._early.pop(0))
        self.query_one(Slider).update_bar()

    @on(Slider.Moved)
    def _moved(self, event: Slider.Moved) -> None:
        self._go(lambda: event.place)

    def check_action(self, action: str, parameters: tuple[object, ...]) -> bool | None:
        """Steering is off."""
        return False if action == "steer" else super().check_action(action, parameters)

    def _go(self, place: Callable[[], int]) -> None:
        """To this place, as soon as there is any."""
        if not self._past.read:
            self._early.append(place)
        elif self._past.move(place()):
            self.query_one(Slider).update_bar()

    def _tenth(self) -> int:
        return max(1, round(self._past.last / TENTH))

    def action_step_back(self) -> None:
        self._go(lambda: self._past.place - 1)

    def action_step_on(self) -> None:
        self._go(lambda: self._past.place + 1)

    def action_tenth_back(self) -> None:
        self._go(lambda: self._past.place - self._tenth())

    def action_tenth_on(self) -> None:
        self._go(lambda: self._past.place + self._tenth())

    def action_follow(self) -> None:
        """To the end of what is recorded."""
        self._go(lambda: self._past.last)

    async def action_back(self) -> None:
        """After a jump to where it came from, else to the present."""
        if self._came_from and self._came_from != self._wanted:
            await self.show_tab(self._came_from)
        else:
            self.action_past()

    def action_past(self) -> None:
        """Back to the present."""
        own_app(self).go("monitor")
