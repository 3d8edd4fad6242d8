"""The frame of the monitor: where the run is, the tabs, steering. It hands what changed to the tab that shows."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Any, ClassVar

from textual import on
from textual.app import ComposeResult
from textual.binding import BindingType
from textual.containers import Container
from textual.timer import Timer
from textual.widget import AwaitMount

from rltui.screens.base import AppScreen
from rltui.screens.messages import RunChanged, RunLost, RunOpened, SteerChanged
from rltui.screens.monitor.bars import BUILT, ProgressBar, TabBar
from rltui.screens.monitor.tab import OpenTab, Tab
from rltui.screens.own_app import own_app
from rltui.sources.base import TERMINAL
from rltui.widgets.bindings import bindings
from rltui.widgets.header import Header
from rltui.widgets.key_bar import KeyBar
from rltui.widgets.lines import STALE

if TYPE_CHECKING:
    from rltui.model.run import RunModel
    from rltui.opened import OpenRun


LATER_S = 0.5  # until the next tab is made in advance
SOON_S = 0.05  # until what is not there yet is looked for again
MOUNT_S = 1.0  # that a key waits, at most, for the tab which it is for


class MonitorScreen(AppScreen):
    BINDINGS: ClassVar[list[BindingType]] = bindings("monitor")
    DEFAULT_CSS = "MonitorScreen > #tabs { height: 1fr; }"

    def __init__(self, opened: OpenRun) -> None:
        super().__init__(name="monitor")
        self.opened = opened
        self._tab: Tab | None = None
        self._tabs: dict[str, Tab] = {}  # those that were made, by name
        self._place: dict[str, Any] | None = None  # where in the tab, once it has started
        self._mounting: dict[str, AwaitMount] = {}  # by tab: until it is there
        self._started = False  # whether the tab that shows has got the focus
        self._wanted = ""  # the tab that a person asked for last; it shows as soon as there is a model
        self._came_from = ""  # the tab that a jump to this one began on
        self._tick: Timer | None = None
        self._steer_first = False
        self._was_live = False
        self._why = ""  # why the run cannot be read at all

    def body(self) -> ComposeResult:
        yield TabBar(self.opened.period_s)
        yield ProgressBar()
        yield Container(id="tabs")

    @property
    def model(self) -> RunModel | None:
        return self.opened.model

    def on_mount(self) -> None:
        self.query_one(Header).set_run(self.opened.name)
        self._tick = self.set_interval(1.0, self._second)
        if self.model is not None:
            self._opened()

    # What the watcher tells

    @on(RunOpened)
    def _opened(self) -> None:
        assert self.model is not None
        self.query_one(TabBar).follow(self.model)
        self.query_one(ProgressBar).follow(self.model)

    @on(RunChanged)
    async def _changed(self, event: RunChanged) -> None:
        if self.model is None:
            return
        if self._tab is None:
            place = own_app(self).memory.of(self.opened.key)
            remembered = place.get("tab")
            await self.show_tab(self._wanted or (remembered if remembered in BUILT else BUILT[0]))
        if self._why or "error" in event.change:
            self._why = ""
            self.refresh_bindings()
            self._fade(bool(self.model.error))
        if self._steer_first:
            self._steer_first = False
            await self.action_steer()
        if not self.app.is_running:
            return  # it ended meanwhile, and its widgets are gone
        for tab in self._tabs.values():
            tab.pending |= event.change.what
        self._bring_up_to_date()
        if event.change.what != {"findings"}:
            self._say_where()
        if self._was_live and not self.model.live:
            state = str((self.model.status or {}).get("state"))
            own_app(self).ended(self.opened.where, state, self.opened.name)
        self._was_live = self.model.live and self.model.status is not None

    @on(RunLost)
    def _lost(self, event: RunLost) -> None:
        self._why = event.why
        self.query_one(Header).set_run(self.opened.name, self.opened.state)
        self.query_one(TabBar).follow(self.model, event.why)
        self.query_one(ProgressBar).follow(self.model, event.why)
        self.refresh_bindings()

    @on(SteerChanged)
    def _steered(self, event: SteerChanged) -> None:
        from rltui.screens.steer import told

        for request in event.requests:
            words, level = told(request)
            self.query_one(KeyBar).status("" if request.state == "done" else words, level)
            if request.settled:
                self.say(words, level)

    def _fade(self, stale: bool) -> None:
        """What is the last known stays, dim."""
        tabs = self.query_one("#tabs")
        if tabs.has_class(STALE) != stale:
            tabs.set_class(stale, STALE)
            for part in tabs.query("*"):
                part.refresh()

    def _second(self) -> None:
        """Ages and elapsed time; while nothing runs they stand still."""
        if self.is_current and self.model is not None and (self.model.live or self.model.error):
            self.query_one(TabBar).update_bar()
            self.query_one(ProgressBar).update_bar()

    def _say_where(self) -> None:
        assert self.model is not None
        self.query_one(Header).set_run(self.opened.name, self.opened.state)
        self.query_one(TabBar).follow(self.model)
        self.query_one(ProgressBar).follow(self.model)

    def _bring_up_to_date(self) -> None:
        tab = self._tab
        if tab is not None and self._stands(tab) and self.model is not None and self.is_current and tab.pending:
            what, tab.pending = tab.pending, frozenset()
            tab.update(self.model, what)

    def _stands(self, tab: Tab) -> bool:
        """Whether all of it is there: one that is mounted now says when it is ready, one that goes loses its parts."""
        return tab.is_mounted and tab.is_running and tab.is_attached and self.app.is_running

    @on(Tab.Ready)
    def _ready(self) -> None:
        self._start_tab()

    @on(Tab.Unread)
    def _unread(self, event: Tab.Unread) -> None:
        self.query_one(TabBar).show_unread(event.count)

    def _start_tab(self) -> None:
        """Put the focus into the tab that shows, and bring it up to date."""
        if self._tab is not None and self._stands(self._tab) and not self._started:
            self._started = True
            self._tab.start()
        self._bring_up_to_date()
        if self._place is not None and self._started and self._tab is not None:
            place, self._place = self._place, None
            self._tab.go(place)

    def on_screen_resume(self) -> None:
        """What came while another screen was shown."""
        self._bring_up_to_date()

    def steer_soon(self) -> None:
        """Ask for a verb as soon as the run has been read."""
        if self._tab is not None:
            self.call_later(self.action_steer)
        else:
            self._steer_first = True

    # Tabs

    async def show_tab(self, name: str, came_from: str = "") -> Tab | None:
        """Show one of BUILT; it is made when it is first wanted. `came_from`: the tab that `back` leads to."""
        self._wanted, self._came_from = name, came_from
        if self.model is None or (self._tab is not None and self._tab.tab == name):
            return self._tab
        tabs = next(iter(self.query("#tabs")), None)
        if tabs is None or not tabs.is_mounted:  # a key that came at once, on a machine that is busy
            self.set_timer(SOON_S, lambda: self.show_tab(self._wanted, self._came_from))
            return self._tab
        if self.maximized is not None:
            self.minimize()
        if self._tab is not None:
            self._tab.display = False
        new = name not in self._tabs
        self._tab = tab = self._tabs[name] if not new else self._make(name)
        tab.display, self._started = True, False
        self.query_one(TabBar).show(name)
        if new:
            self._mounting[name] = tabs.mount(tab)
            self.set_timer(LATER_S, self._make_next)
        # A key that comes now waits with us: it is for the tab that was asked for before it.
        await self._until_mounted(name)
        if tab is self._tab:  # no other one was wanted meanwhile
            self._start_tab()
        return tab

    async def _until_mounted(self, name: str) -> None:
        """Not for ever: part of what is mounted may wait for this screen, which waits here. Then Tab.Ready tells."""
        mounting = asyncio.ensure_future(self._mounting[name]())
        await asyncio.wait([mounting], timeout=MOUNT_S)

    def _make(self, name: str) -> Tab:
        tab = self._tabs[name] = _make(name, self.opened)
        tab.restore(self._remembered().get(name) or {})
        return tab

    def _make_next(self) -> None:
        """Make the tabs that nobody has asked for yet, one at a time: making one takes long enough to be felt."""
        name = next((name for name in BUILT if name not in self._tabs), None)
        if name is not None and self.is_attached:
            tab = self._make(name)
            tab.display = False
            self._mounting[name] = self.query_one("#tabs").mount(tab)
            self.set_timer(LATER_S, self._make_next)

    def _remembered(self) -> dict[str, Any]:
        place = own_app(self).memory.of(self.opened.key)
        tabs = place.get("tabs")
        return {key: value for key, value in tabs.items() if isinstance(value, dict)} if isinstance(tabs, dict) else {}

    def remember(self) -> None:
        """Keep where the person is in this run."""
        if self._tab is not None:
            made = (tab for tab in self._tabs.values() if self._stands(tab))
            tabs = {**self._remembered(), **{tab.tab: tab.place() for tab in made}}
            own_app(self).memory.keep(self.opened.key, tab=self._tab.tab, tabs=tabs)

    @on(OpenTab)
    async def _open_tab(self, event: OpenTab) -> None:
        self._place = event.place
        await self.show_tab(event.tab, self._tab.tab if self._tab is not None else "")
        self._start_tab()

    def _turn(self, by: int) -> None:
        """In a narrow tab the next pane comes to the front."""
        tab = self._tab
        if tab is not None and tab.has_class("-narrow") and self.maximized is None:
            panes = tab.panes
            at = next((i for i, pane in enumerate(panes) if pane.has_class("-front")), 0)
            tab.to_front(panes[(at + by) % len(panes)])
            self.focus_in(next(pane for pane in panes if pane.has_class("-front")))
        else:
            super()._turn(by)

    async def _tab_by(self, by: int) -> None:
        at = BUILT.index(self._wanted or BUILT[0])
        await self.show_tab(BUILT[(at + by) % len(BUILT)])

    async def action_overview(self) -> None:
        await self.show_tab("overview")

    async def action_rollouts(self) -> None:
        await self.show_tab("rollouts")

    async def action_logs(self) -> None:
        await self.show_tab("logs")

    async def action_metrics(self) -> None:
        await self.show_tab("metrics")

    async def action_judge(self) -> None:
        await self.show_tab("judge")

    async def action_pipeline(self) -> None:
        await self.show_tab("pipeline")

    async def action_next_tab(self) -> None:
        await self._tab_by(1)

    async def action_previous_tab(self) -> None:
        await self._tab_by(-1)

    # Actions

    def check_action(self, action: str, parameters: tuple[object, ...]) -> bool | None:
        """A source that answers needs no retry."""
        if action == "retry":
            return bool(self._why or (self.model is not None and self.model.error))
        return super().check_action(action, parameters)

    async def action_back(self) -> None:
        """After a jump to where it came from, else to the list of runs."""
        if self._came_from and self._came_from != self._wanted:
            await self.show_tab(self._came_from)
        else:
            own_app(self).action_runs()

    def action_follow(self) -> None:
        if self._tab is not None:
            self._tab.follow()

    def action_past(self) -> None:
        """The same tab, as it was. To leave that screen is to come back from there."""
        from rltui.past import PastRun
        from rltui.screens.monitor.past import PastScreen

        self.remember()
        self.app.switch_screen(PastScreen(PastRun(self.opened.where), self._wanted))

    def action_retry(self) -> None:
        self.opened.look_now()

    async def action_steer(self) -> None:
        from rltui.screens.steer import ended, steer_screen

        steering, model = self.opened.steering, self.model
        if steering is None or model is None:
            self.say("the run has not been read yet", "watch")
            return
        if (model.status or {}).get("state") in TERMINAL:
            self.say(ended(self.opened.name, str((model.status or {})["state"])), "watch")
            return
        readonly = own_app(self).options.readonly
        await self.app.push_screen(steer_screen(self.opened.name, model.status, steering, readonly), self._steer)

    def _steer(self, verb: str | None) -> None:
        from rltui.screens.steer import kill_screen

        if verb == "kill" and self.model is not None:
            self.app.push_screen(kill_screen(self.opened.name, self.model.status), self._ask)
        elif verb == "set" and self.opened.checkup is not None:
            from rltui.screens.set_key import SetScreen

            self.app.push_screen(SetScreen(self.opened.name, self.opened.checkup.record.value), self._set)
        else:
            self._ask(verb)

    def _set(self, values: dict[str, Any] | None) -> None:
        if values is not None:
            self.opened.ask("set", values)

    def _ask(self, verb: str | None) -> None:
        if verb is not None:
            self.opened.ask(verb)


def _make(name: str, opened: OpenRun) -> Tab:
    if name == "overview":
        from rltui.screens.monitor.overview import Overview

        return Overview(opened)
    if name == "metrics":
        from rltui.screens.monitor.metrics import Metrics

        return Metrics(opened)
    if name == "rollouts":
        from rltui.screens.monitor.rollouts import Rollouts

        return Rollouts(opened)
    if name == "judge":
        from rltui.screens.monitor.judge import JudgeTab

        return JudgeTab(opened)
    if name == "pipeline":
        from rltui.screens.monitor.pipeline import Pipeline

        return Pipeline(opened)
    from rltui.screens.monitor.logs import Logs

    return Logs(opened)
