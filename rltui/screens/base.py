"""The frame of every screen: header, body, keys; panes, zoom, and one line instead where the terminal is too small."""

from __future__ import annotations

from typing import ClassVar

from rich.segment import Segment
from textual import events
from textual.app import ComposeResult
from textual.binding import BindingType
from textual.reactive import Reactive
from textual.screen import Screen
from textual.timer import Timer
from textual.widget import Widget
from textual.worker import Worker, WorkerState

from rltui.screens.layout import ScreenCompositor
from rltui.screens.own_app import own_app
from rltui.terminal.crash import sentence
from rltui.widgets.bindings import allowed, bindings
from rltui.widgets.header import Header
from rltui.widgets.key_bar import KeyBar
from rltui.widgets.lines import Lines, look_of
from rltui.widgets.notice import Level
from rltui.widgets.pane import Pane

LEAST_COLUMNS, LEAST_ROWS = 60, 18
SETTLE_S = 0.3  # after the last of a storm of sizes: what was drawn for another one is drawn again


class TooSmall(Lines, can_focus=False):
    """What stands there below the least size."""

    def on_mount(self) -> None:
        self.line_count = 1

    def on_resize(self) -> None:
        self.refresh()

    def line(self, y: int, width: int) -> list[Segment]:
        size = self.screen.size
        text = f"{LEAST_COLUMNS}x{LEAST_ROWS} needed, here {size.width}x{size.height}; q leaves"
        return [Segment(text, look_of(self).style("text"))]


class AppScreen(Screen[None]):
    """Override `body`. `name` is one of rltui.app.SCREENS."""

    BINDINGS: ClassVar[list[BindingType]] = bindings("screen")
    _settling: Timer | None = None
    _sized = False  # whether it has had a size
    # The framework's own repaints the whole screen whenever the focus moves.
    focused: Reactive[Widget | None] = Reactive(None, repaint=False)
    ALLOW_IN_MAXIMIZED_VIEW = "Header, KeyBar"
    DEFAULT_CSS = """
    AppScreen { layout: vertical; overflow: hidden hidden; }
    AppScreen .-maximized { width: 1fr !important; height: 1fr !important; max-width: 100%; max-height: 100%; }
    AppScreen.-maximized-view { hatch: none !important; align: left top; overflow: hidden hidden !important; }
    AppScreen > Header { dock: top; }
    AppScreen > KeyBar { dock: bottom; }
    AppScreen > TooSmall { display: none; }
    AppScreen.-too-small > * { display: none; }
    AppScreen.-too-small > TooSmall { display: block; }
    """

    def __init__(self, name: str | None = None) -> None:
        super().__init__(name=name)
        self._compositor = ScreenCompositor()

    def compose(self) -> ComposeResult:
        yield Header(self.name or "")
        yield from self.body()
        yield KeyBar()
        yield TooSmall()

    def body(self) -> ComposeResult:
        """What stands between header and keys."""
        raise NotImplementedError

    def on_resize(self, event: events.Resize) -> None:
        self.set_class(event.size.width < LEAST_COLUMNS or event.size.height < LEAST_ROWS, "-too-small")
        if self._settling is not None:
            self._settling.stop()
        if self._sized:
            self._settling = self.set_timer(SETTLE_S, self.refresh)
        self._sized = True

    def say(self, text: str, level: Level = "info") -> None:
        """A notice at the right of the keys, for some seconds."""
        if self.is_mounted:
            self.query_one(KeyBar).notice(text, level)
        else:
            self.call_after_refresh(self.say, text, level)

    def on_worker_state_changed(self, event: Worker.StateChanged) -> None:
        """What fails beside the interface ends nothing, but it is said, and stands in the report of a crash."""
        if event.state is WorkerState.ERROR and event.worker.error is not None:
            said = sentence(event.worker.error)
            own_app(self).recorder.add("worker failed", said)
            self.say(f"this failed, by a fault of ours: {said}; try again", "act")

    def check_action(self, action: str, parameters: tuple[object, ...]) -> bool | None:
        """What writes is refused under --readonly."""
        return allowed(self, action)

    # Panes

    @property
    def panes(self) -> list[Pane]:
        """Those that show, in the order of `tab`."""
        return [pane for pane in self.query(Pane) if pane.is_on_screen]

    @property
    def pane(self) -> Pane | None:
        """The one with the focus."""
        return next((pane for pane in self.panes if pane.has_pseudo_class("focus-within")), None)

    def action_zoom(self) -> None:
        if self.maximized is not None:
            self.minimize()
        elif self.pane is not None:
            self.maximized = self.pane

    def action_reset_layout(self) -> None:
        if self.maximized is not None:
            self.minimize()

    def action_next_pane(self) -> None:
        self._turn(1)

    def action_previous_pane(self) -> None:
        self._turn(-1)

    async def action_jump(self) -> None:
        from rltui.screens.jump import JumpScreen

        panes = [pane for pane in self.panes if any(child.focusable for child in pane.query("*"))]
        if panes:
            await self.app.push_screen(JumpScreen(panes), self._jump)

    def _jump(self, pane: Pane | None) -> None:
        if pane is not None:
            self.focus_in(pane)

    def _turn(self, by: int) -> None:
        panes = [pane for pane in self.panes if any(child.focusable for child in pane.query("*"))]
        if not panes:
            return
        at = panes.index(self.pane) + by if self.pane in panes else 0
        self.focus_in(panes[at % len(panes)])

    def focus_in(self, pane: Pane) -> None:
        """Put the focus on what of the pane takes keys."""
        target = next((child for child in pane.query("*") if child.focusable), None)
        if target is not None:
            self.set_focus(target, scroll_visible=False)
