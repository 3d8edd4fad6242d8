"""The first tab: four charts, the last events, and what the run does now."""

from __future__ import annotations

import time
from dataclasses import dataclass
from itertools import chain, repeat
from typing import TYPE_CHECKING, Any, ClassVar

from rich.segment import Segment
from textual import events, on
from textual.app import ComposeResult
from textual.binding import BindingType
from textual.containers import Container
from textual.timer import Timer

from rltui.charts.parts import Axis, Mark, Series
from rltui.screens.monitor.event_rows import EventRows
from rltui.screens.monitor.health import HealthRows
from rltui.screens.monitor.now import Line, now_lines
from rltui.screens.monitor.tab import OpenTab, Tab
from rltui.screens.own_app import own_app
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
MARKED = {"set", "checkpoint", "evaluate"}  # requests that leave a mark on every chart


@dataclass(frozen=True)
class Plan:
    """One chart: the first set of metrics of which there are any, by (title, names with their words)."""

    id: str
    ema: float
    sets: tuple[tuple[str, tuple[tuple[str, str], ...]], ...]


PLANS = (
    Plan("reward", 0.6, (("reward", (("reward/mean", "mean"),)), ("eval reward", (("eval/reward_mean", "mean"),)))),
    Plan("loss", 0.6, (("loss", (("gspo/loss", "loss"),)),)),
    Plan(
        "policy",
        0.6,
        (("entropy", (("entropy", "entropy"),)), ("response tokens", (("length/mean", "mean"),))),
    ),
    Plan(
        "update",
        0.6,
        (
            ("clip fraction", (("gspo/clip_frac_high", "high"), ("gspo/clip_frac_low", "low"))),
            ("gradient norm", (("optim/grad_norm", "norm"),)),
        ),
    ),
)


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


class Overview(Tab):
    tab = "overview"
    DEFAULT_CSS = """
    Overview > Container { layout: grid; grid-size: 2 4; grid-rows: 5fr 5fr 4fr 3fr; height: 1fr; }
    Overview > Container > #pane-now { row-span: 2; }
    Overview.-narrow > Container { grid-size: 1 1; grid-rows: 1fr; }
    Overview.-narrow > Container > #pane-now { row-span: 1; }
    """

    def __init__(self, opened: OpenRun) -> None:
        super().__init__()
        self._opened = opened
        self._events = EventRows()
        self._health = HealthRows()
        self._charts: dict[str, Chart] = {}
        self._shown: dict[str, tuple[str, ...]] = {}
        self._model: RunModel | None = None
        self._drawn_at = -CHARTS_S
        self._due: Timer | None = None  # the next draw of the charts

    def compose(self) -> ComposeResult:
        axes = (Axis(), Axis("time", self._time_of))
        for plan in PLANS:
            self._charts[plan.id] = Chart(ema=plan.ema, axes=axes, id=f"chart-{plan.id}")
        panes = [Pane(self._charts[plan.id], title=plan.sets[0][0], id=f"pane-{plan.id}") for plan in PLANS]
        panes[0].add_class("-front")
        with Container():
            yield from panes
            yield Pane(VirtualList(self._health, id="health"), title="Health", id="pane-health")
            yield Pane(NowLines(), title="Now", id="pane-now")
            yield Pane(VirtualList(self._events, follow=True, id="events"), title="Last events")

    def start(self) -> None:
        focus_now(self.query_one("#chart-reward"))

    def update(self, model: RunModel, what: frozenset[str]) -> None:
        self._model = model
        if "metrics" in what and self._due is None:
            # A chart that grows changes in most of its cells: once a second is enough, however often the rest is.
            wait = self._drawn_at + CHARTS_S - time.monotonic()
            if wait > 0:
                self._due = self.set_timer(wait, self._draw_all)
            else:
                self._draw_all()
        if "events" in what:
            self._events.update(model.events)
            self.query_one("#events", VirtualList).append_rows()
            marks = _marks(model)
            for chart in self._charts.values():
                chart.set_options(marks=marks)
        if "status" in what and not model.live:  # the last one, after which no metrics come
            for chart in self._charts.values():
                chart.set_options(growing=False)
        if "findings" in what and self._opened.checkup is not None:
            self._health.update(self._opened.checkup.findings)
            self.query_one("#health", VirtualList).update_rows()
            self.query_one("#pane-health", Pane).set_info(self._health.info)
        if what & {"status", "metrics", "groups"}:
            self.query_one(NowLines).show(now_lines(model.status, model.metrics, model.groups))

    def _draw_all(self) -> None:
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
        pane.set_title(title)
        self._subtitle(pane)
        pane.set_info(chart.description.title(look_of(self)))

    def _subtitle(self, pane: Pane) -> None:
        """How a chart is smoothed; where one pane shows at a time, which one it is."""
        chart = next(iter(pane.query(Chart)), None)
        words = [f"EMA {chart.ema:g}"] if chart is not None and chart.ema else []
        if self.has_class("-narrow"):
            words.append(f"pane {self.panes.index(pane) + 1} of {len(self.panes)}, tab: next")
        pane.set_subtitle(", ".join(words))

    def on_resize(self, event: events.Resize) -> None:
        super().on_resize(event)
        for pane in self.panes:
            self._subtitle(pane)

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
    def _event_opened(self) -> None:
        self.post_message(OpenTab("logs"))

    def follow(self) -> None:
        """Back to the whole run up to now, after a zoom or a look at older events."""
        for chart in self._charts.values():
            chart.set_options(view=None, cursor=None)
        self.query_one("#events", VirtualList).action_last()

    def _iteration_of(self, step: float) -> int | None:
        point = self._model.metrics.labels["iteration"].at(step) if self._model is not None else None
        return int(point[1]) if point is not None else None

    def _time_of(self, step: float) -> str:
        point = self._model.metrics.labels["time"].at(step) if self._model is not None else None
        return time.strftime("%H:%M", time.localtime(point[1])) if point is not None else ""


def _marks(model: RunModel) -> tuple[Mark, ...]:
    """Where a person asked for something, and where an attempt went on."""
    found = []
    for event in model.events:
        data: Any = event.get("data") or {}
        if event.get("type") == "rl.control.done" and data.get("action") in MARKED:
            found.append(Mark(float(event.get("step") or 0), str(data["action"])))
        elif event.get("type") == "rl.resumed" and isinstance(data.get("from_step"), int):
            found.append(Mark(float(data["from_step"]), f"attempt {event.get('attempt')}"))
    return tuple(found)
