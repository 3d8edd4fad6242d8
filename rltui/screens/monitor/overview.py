"""The first tab: four charts, the last events, and what the run does now."""

from __future__ import annotations

import time
from itertools import chain, repeat
from typing import TYPE_CHECKING, ClassVar

from rich.segment import Segment
from textual import events, on
from textual.app import ComposeResult
from textual.binding import BindingType
from textual.containers import Container
from textual.timer import Timer

from rltui.charts.parts import Axis, Series
from rltui.charts.smooth import titled
from rltui.doctor.doctor import speaking
from rltui.model.along import AXES, STEP, Along, written
from rltui.model.event_view import rule_of
from rltui.model.marks import marks
from rltui.model.metrics import MetricStore
from rltui.model.now import Line, now_lines
from rltui.model.overview_view import PLANS, Plan
from rltui.screens.monitor.event_rows import EventRows
from rltui.screens.monitor.health import STYLES, HealthRows
from rltui.screens.monitor.tab import OpenTab, Tab
from rltui.screens.own_app import own_app
from rltui.text import fit
from rltui.text_lines import wrap
from rltui.widgets.bindings import bindings
from rltui.widgets.chart import Chart
from rltui.widgets.lines import Lines, focus_now, look_of
from rltui.widgets.pane import Pane
from rltui.widgets.virtual_list import VirtualList

if TYPE_CHECKING:
    from rltui.model.run import RunModel
    from rltui.opened import OpenRun

CHARTS_S = 1.0  # at least, between two draws of the charts
_NAME = 10  # cells
BRIEF_ROWS = 2  # of each line, where one pane shows at a time
TO_DO_ROWS = 4  # of what is to be done, which ends with a command


class NowLines(Lines, inherit_bindings=False):
    """What the run does now."""

    BINDINGS: ClassVar[list[BindingType]] = bindings("overview")

    def __init__(self) -> None:
        super().__init__()
        self._said: list[Line] = []
        self._rows: list[Line] = []  # wrapped to the width

    def show(self, lines: list[Line]) -> None:
        self._said = lines
        self._lay_out()

    def on_resize(self) -> None:
        self._lay_out()

    def _lay_out(self) -> None:
        before, room = self._rows, max(20, self.size.width - _NAME - 1)
        self._rows = [
            (name if first else "", row, style)
            for name, text, style in self._said
            for first, row in zip(chain([True], repeat(False)), wrap(text, room), strict=False)
        ]
        self.line_count = len(self._rows)
        both = zip(before, self._rows, strict=False)
        self.refresh_lines(y for y, (old, new) in enumerate(both) if old != new)

    def line(self, y: int, width: int) -> list[Segment]:
        look = look_of(self)
        name, text, style = self._rows[y]
        return [Segment(f" {name:<{_NAME}}", look.style("dim")), Segment(text, look.style(style))]

    def action_open(self) -> None:
        self.post_message(OpenTab("rollouts"))


class Brief(Lines, inherit_bindings=False, can_focus=False):
    """Of `now_lines` what must not be missed, where one pane shows at a time: a few lines, as high as they are."""

    def __init__(self) -> None:
        super().__init__(id="brief")
        self._said: list[Line] = []
        self._rows: list[Line] = []

    def show(self, lines: list[Line]) -> None:
        if lines != self._said:
            self._said = lines
            self._lay_out()

    def on_resize(self) -> None:
        self._lay_out()

    def _lay_out(self) -> None:
        room = max(20, self.size.width - _NAME - 1)
        self._rows = []
        for name, text, style in self._said:
            rows = wrap(text, room)
            most = TO_DO_ROWS if name == "to do" else BRIEF_ROWS
            if len(rows) > most:
                rows = [*rows[: most - 1], fit(" ".join(rows[most - 1 :]), room)]
            self._rows += [(name if not y else "", row, style) for y, row in enumerate(rows)]
        self.styles.height = self.line_count = len(self._rows)
        self.refresh()

    def line(self, y: int, width: int) -> list[Segment]:
        look = look_of(self)
        name, text, style = self._rows[y]
        return [Segment(f" {name:<{_NAME}}", look.style("dim")), Segment(text, look.style(style))]


class Overview(Tab):
    tab = "overview"
    DEFAULT_CSS = """
    Overview > Container { layout: grid; grid-size: 2 4; grid-rows: 5fr 5fr 4fr 3fr; height: 1fr; }
    Overview > Container > #pane-now { row-span: 2; }
    Overview.-narrow > Container { grid-size: 1 1; grid-rows: 1fr; }
    Overview.-narrow > Container > #pane-now { row-span: 1; }
    Overview > Brief { display: none; height: 0; }
    Overview.-narrow > Brief { display: block; }
    """

    def __init__(self, opened: OpenRun) -> None:
        super().__init__()
        self._opened = opened
        self._events = EventRows()
        self._health = HealthRows()
        self._charts: dict[str, Chart] = {}
        self._shown: dict[str, tuple[str, ...]] = {}
        self._model: RunModel | None = None
        self._along = Along(MetricStore())
        self._drawn_at = -CHARTS_S
        self._due: Timer | None = None  # the next draw of the charts

    def compose(self) -> ComposeResult:
        axes = tuple(self._axis(name) for name in AXES)
        for plan in PLANS:
            self._charts[plan.id] = Chart(ema=plan.ema, axes=axes, id=f"chart-{plan.id}")
        panes = [Pane(self._charts[plan.id], title=plan.sets[0][0], id=f"pane-{plan.id}") for plan in PLANS]
        panes[0].add_class("-front")
        with Container():
            yield from panes
            yield Pane(VirtualList(self._health, id="health"), title="Health", id="pane-health")
            yield Pane(NowLines(), title="Now", id="pane-now")
            yield Pane(VirtualList(self._events, follow=True, id="events"), title="Last events")
        yield Brief()

    def _axis(self, name: str) -> Axis:
        # The run's own numbers are there later than the charts.
        return Axis() if name == STEP else Axis(name, lambda step: written(name, self._along.at(name, step)))

    def start(self) -> None:
        focus_now(self.query_one("#chart-reward"))

    def update(self, model: RunModel, what: frozenset[str]) -> None:
        if model.metrics is not self._along.metrics:
            self._along = Along(model.metrics)
        self._model = model
        if what & {"status", "metrics"}:
            self._along.update(model.status)
        if "caught_up" in what:
            self._draw_all()
        elif "metrics" in what and self._due is None:
            # A chart that grows changes in most of its cells: once a second is enough, however often the rest is.
            wait = self._drawn_at + CHARTS_S - time.monotonic()
            if wait > 0:
                self._due = self.set_timer(wait, self._draw_all)
            else:
                self._draw_all()
        if "events" in what:
            self._events.update(model.events)
            self.query_one("#events", VirtualList).append_rows()
            found = marks(model.events)
            for chart in self._charts.values():
                chart.set_options(marks=found)
        if "status" in what and not model.live:  # the last one, after which no metrics come
            for chart in self._charts.values():
                chart.set_options(growing=False)
        if "findings" in what and self._opened.checkup is not None:
            self._health.update(self._opened.checkup.findings)
            self.query_one("#health", VirtualList).update_rows()
            self.query_one("#pane-health", Pane).set_info(self._health.info)
        if what & {"status", "metrics", "groups", "findings"}:
            lines = now_lines(model.status, model.metrics, model.groups)
            self.query_one(NowLines).show(lines)
            self.query_one(Brief).show(self._brief(lines))

    def _brief(self, lines: list[Line]) -> list[Line]:
        """Why it failed and what to do; else what it does. And the worst that the doctor says."""
        cause = [line for line in lines if line[0] in ("cause", "to do")]
        found = speaking(self._opened.checkup.findings) if self._opened.checkup is not None else []
        health = [("health", f"{found[0].rule.id} {found[0].line}", STYLES[found[0].state])] if found else []
        return [*cause, *health] if cause else [*health, *(line for line in lines[:1] if line[0] == "rollouts")]

    def _draw_all(self) -> None:
        if self._due is not None:
            self._due.stop()
            self._due = None
        self._drawn_at = time.monotonic()
        if self._model is not None:
            for plan in PLANS:
                self._draw(plan, self._model)

    def _draw(self, plan: Plan, model: RunModel) -> None:
        chart = self._charts[plan.id]
        chart.set_options(growing=model.live)
        for _, wanted in plan.sets:
            found = [(name, word) for name, word in wanted if model.metrics.get(name) is not None]
            if not found:
                continue
            names = tuple(name for name, _ in found)
            if self._shown.get(plan.id) != names:
                self._shown[plan.id] = names
                chart.set_series([Series(word, model.metrics.series[name], i) for i, (name, word) in enumerate(found)])
                self._title(chart)
            else:
                chart.refresh_data()
            return

    def _title(self, chart: Chart) -> None:
        plan = next(plan for plan in PLANS if self._charts[plan.id] is chart)
        names = self._shown.get(plan.id)
        title = next((title for title, wanted in plan.sets if names and wanted[0][0] in names), plan.sets[0][0])
        pane = self.query_one(f"#pane-{plan.id}", Pane)
        pane.set_title(titled(title, chart.ema))
        pane.set_info(chart.description.title(look_of(self)))

    @on(Chart.Adjusted)
    def _adjusted(self, event: Chart.Adjusted) -> None:
        self._title(event.chart)

    def on_resize(self, event: events.Resize) -> None:
        super().on_resize(event)
        panes = self.panes
        for i, pane in enumerate(panes, 1):
            pane.set_subtitle(f"pane {i} of {len(panes)}, tab: next" if self.has_class("-narrow") else "")

    @on(Chart.Described)
    def _described(self, event: Chart.Described) -> None:
        self._title(event.chart)

    @on(Chart.CursorMoved)
    def _cursor_moved(self, event: Chart.CursorMoved) -> None:
        for chart in self._charts.values():
            if chart is not event.chart:
                chart.set_cursor(event.x)

    @on(Chart.Opened)
    def _chart_opened(self, event: Chart.Opened) -> None:
        iteration = self._iteration_of(event.x)
        self.post_message(OpenTab("rollouts", iteration=iteration))

    @on(VirtualList.Selected, "#health")
    def _finding_opened(self, event: VirtualList.Selected) -> None:
        own_app(self).show_finding(self._health.rule(event.index))

    @on(VirtualList.Selected, "#events")
    def _event_opened(self, event: VirtualList.Selected) -> None:
        if rule := rule_of(self._events.event(event.index)):
            own_app(self).show_finding(rule)
        else:
            self.post_message(OpenTab("logs"))

    def follow(self) -> None:
        """Back to the whole run up to now, after a zoom or a look at older events."""
        for chart in self._charts.values():
            chart.set_options(view=None, cursor=None)
        self.query_one("#events", VirtualList).action_last()

    def _iteration_of(self, step: float) -> int | None:
        point = self._model.metrics.labels["iteration"].at(step) if self._model is not None else None
        return int(point[1]) if point is not None else None
