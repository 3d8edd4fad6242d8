"""The tab of all metrics: a list in groups, and beside it a page of charts that goes with the list's cursor."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING, Any, ClassVar

from textual import events, on
from textual.app import ComposeResult
from textual.binding import BindingType
from textual.containers import Horizontal
from textual.timer import Timer

from rltui.charts.numbers import number, place
from rltui.charts.parts import Axis
from rltui.charts.scale import Limits
from rltui.model.along import AXES, STEP, Along, written
from rltui.model.find import FindError
from rltui.model.marks import marks
from rltui.model.metric_view import values
from rltui.model.metrics import ITERATION, MetricStore
from rltui.screens.monitor.metric_charts import ChartPane, MetricCharts
from rltui.screens.monitor.metric_filter import FilteredMetrics
from rltui.screens.monitor.tab import OpenTab
from rltui.screens.monitor.writing import write_text
from rltui.screens.own_app import own_app
from rltui.widgets.bindings import bindings
from rltui.widgets.chart import Chart
from rltui.widgets.instead import Instead
from rltui.widgets.lines import focus_now
from rltui.widgets.pane import Pane
from rltui.widgets.prompt import Prompt
from rltui.widgets.virtual_list import VirtualList

if TYPE_CHECKING:
    from rltui.model.run import RunModel
    from rltui.opened import OpenRun

CHARTS_S = 1.0  # at least, between two draws of the charts
LIST = 32  # cells of the list, beside the charts


class Metrics(FilteredMetrics):
    tab = "metrics"
    BINDINGS: ClassVar[list[BindingType]] = bindings("metrics")
    DEFAULT_CSS = """
    Metrics > #metrics-body { height: 1fr; }
    Metrics #metrics-pane { width: 32; }
    Metrics #metrics-pane.-none { width: 1fr; }
    Metrics Instead { display: none; height: 3; }
    Metrics #metrics-pane.-none Instead { display: block; }
    Metrics MetricCharts.-away { display: none; }
    """

    def __init__(self, opened: OpenRun) -> None:
        super().__init__()
        self._opened = opened
        self._model: RunModel | None = None
        self._along = Along(MetricStore())
        self._selected = ""
        self._known = -1  # metrics at the last look
        self._drawn_at = -CHARTS_S
        self._due: Timer | None = None  # the next draw of the charts

    def compose(self) -> ComposeResult:
        axes = [self._axis(name) for name in AXES]
        with Horizontal(id="metrics-body"):
            with Pane(title="Metrics", id="metrics-pane", classes="-front"):
                yield Instead()
                yield VirtualList(self._rows, id="metrics")
            yield MetricCharts(axes)
        yield Prompt("/", placeholder="a regular expression, such as reward|eval", id="metrics-filter")

    def _axis(self, name: str) -> Axis:
        # The run's own numbers are there later than the charts.
        return Axis() if name == STEP else Axis(name, lambda step: written(name, self._along.at(name, step)))

    @property
    def panes(self) -> list[Pane]:
        """The list, and the charts in use."""
        return [self.query_one("#metrics-pane", Pane), *self._charts.page]

    @property
    def _charts(self) -> MetricCharts:
        return self.query_one(MetricCharts)

    def on_mount(self) -> None:
        super().on_mount()
        self.watch(self.screen, "maximized", self._show_page, init=False)

    def start(self) -> None:
        focus_now(self._list)

    # What changed

    def update(self, model: RunModel, what: frozenset[str]) -> None:
        if model.metrics is not self._along.metrics:
            self._along, self._known = Along(model.metrics), -1
        self._model = model
        charts = self._charts
        if "events" in what:
            charts.share(marks=marks(model.events))
        if "status" in what:
            charts.share(growing=model.live)
        if what & {"status", "metrics"}:
            self._along.update(model.status)
        if "caught_up" in what:  # at once: this is what one waits for
            self._draw()
        elif "metrics" in what and self._due is None:
            wait = self._drawn_at + CHARTS_S - time.monotonic()
            if wait > 0:
                self._due = self.set_timer(wait, self._draw)
            else:
                self._draw()
        elif what & {"status", "error"}:
            self._describe()

    @property
    def _store(self) -> MetricStore | None:
        return self._model.metrics if self._model is not None else None

    def _draw(self) -> None:
        if self._due is not None:
            self._due.stop()
            self._due = None
        self._drawn_at = time.monotonic()
        store = self._store
        if store is None or not self.is_attached:
            return
        if len(store) != self._known:
            on_first = self._rows.names[:1] == [self._selected]
            self._known = len(store)
            self.list_again()
            # A run's first metrics are not those that the list begins with.
            if on_first and not self._rows.heading(self._list.cursor):
                self.action_first()
        else:
            self._list.update_rows()
            self._charts.refresh_data()

    def list_again(self) -> None:
        """Other rows: the cursor stays on its metric."""
        store = self._store
        if store is None:
            return
        try:
            on_heading = bool(self._rows.heading(self._list.cursor))
            self._rows.update(store)
        except FindError as error:
            self.query_one(Prompt).set_note(str(error), "watch")
            return
        self._list.update_rows()
        if not on_heading:
            self._list.cursor = self._rows.index_of(self._selected) or 1
        self._select()

    def _select(self) -> None:
        """The charts go with the list's cursor."""
        self._selected = self._rows.name_at(self._list.cursor) or next(iter(reversed(self._rows.names)), "")
        self._show_page()

    def _show_page(self) -> None:
        """The page of the metric under the cursor; where one pane has the screen, that metric alone."""
        store, charts = self._store, self._charts
        if store is None or not self.is_attached:
            return
        names, zoomed = self._rows.names, self.screen.maximized
        if isinstance(zoomed, ChartPane) and self._selected:
            charts.put(zoomed, self._selected)
            charts.describe(self._selected)
        else:
            at = names.index(self._selected) if self._selected in names else 0
            begin = at - at % charts.capacity
            charts.set_class(not names, "-away")
            charts.show(names[begin : begin + charts.capacity], store, self._selected)
            front = charts.of(self._selected)
            if front is not None and not self.query_one("#metrics-pane").has_class("-front"):
                self.to_front(front)
            if front is not None and isinstance(self.screen.focused, Chart) and self.screen.focused is not front.chart:
                focus_now(front.chart)
        self._describe()

    def _describe(self) -> None:
        store, pane, names = self._store, self.query_one("#metrics-pane", Pane), self._rows.names
        if store is None:
            return
        text = self._rows.text
        pane.set_title(f"Metrics  /{text}/" if text else "Metrics")
        pane.set_info(f"{self._rows.kept} of {len(store)}" if text else str(len(store)))
        begin, most = 0, self._charts.capacity
        if self._selected in names:
            begin = names.index(self._selected) // most * most
        last = min(len(names), begin + most)
        shown = f"chart {last}" if last == begin + 1 else f"charts {begin + 1}-{last}"
        pane.set_subtitle(f"{shown} of {len(names)}" if len(names) > most else "")
        self._say_nothing(pane, store)

    def _say_nothing(self, pane: Pane, store: MetricStore) -> None:
        """Where no metric is listed: why."""
        pane.set_class(not len(self._rows), "-none")
        if len(self._rows):
            return
        if len(store):
            said = (f"No metric has /{self._rows.text}/", "text"), ("/ changes the filter, esc clears it", "dim")
        else:
            said = (("No metric yet: the first step writes them", "dim"),)
        pane.query_one(Instead).say(*said)

    @on(VirtualList.Highlighted, "#metrics")
    def _highlighted(self) -> None:
        if self._rows.name_at(self._list.cursor) != self._selected:
            self._select()

    @on(VirtualList.Selected, "#metrics")
    def _entered(self, event: VirtualList.Selected) -> None:
        """Into the chart; a heading folds."""
        if group := self._rows.heading(event.index):
            self._rows.fold(group)
            self.list_again()
            return
        pane = self._charts.of(self._selected)
        if pane is not None:
            self.to_front(pane)
            focus_now(pane.chart)

    def on_resize(self, event: events.Resize) -> None:
        super().on_resize(event)
        narrow = self.has_class("-narrow")
        columns = 1 if narrow else event.size.width - LIST
        if self._charts.fit_to(columns, 1 if narrow else event.size.height):
            self.call_after_refresh(self._show_page)

    # The charts

    def on_descendant_focus(self, event: events.DescendantFocus) -> None:
        """A chart that gets the focus is the one that is meant."""
        pane = next((pane for pane in self._charts.page if pane.chart is event.widget), None)
        if pane is not None and pane.metric != self._selected:
            self._go_to(pane.metric)

    @on(Chart.Described)
    def _described(self, event: Chart.Described) -> None:
        pane = event.chart.parent
        if isinstance(pane, ChartPane) and pane.metric:
            pane.describe(pane.metric == self._selected)

    @on(Chart.Adjusted)
    def _adjusted(self, event: Chart.Adjusted) -> None:
        pane = event.chart.parent
        if isinstance(pane, ChartPane) and pane.metric:
            self._charts.keep(pane)

    @on(Chart.CursorMoved)
    def _cursor_moved(self, event: Chart.CursorMoved) -> None:
        self._charts.share(cursor=event.x)

    @on(Chart.Opened)
    def _chart_opened(self, event: Chart.Opened) -> None:
        """The episodes behind a point."""
        point = self._store.labels[ITERATION].at(event.x) if self._store is not None else None
        split = "eval" if self._selected.startswith("eval/") else "train"
        self.post_message(OpenTab("rollouts", iteration=int(point[1]) if point is not None else None, split=split))

    def _go_to(self, name: str) -> None:
        at = self._rows.index_of(name)
        if at is not None:
            self._list.cursor = at
            self._select()

    def _by(self, metrics: int) -> None:
        """So many metrics on."""
        names = self._rows.names
        if names:
            at = names.index(self._selected) if self._selected in names else 0
            self._go_to(names[max(0, min(len(names) - 1, at + metrics))])

    # Actions

    def go(self, place: dict[str, Any]) -> None:
        """`metric`: its chart."""
        name = place.get("metric")
        if isinstance(name, str):
            if self._rows.index_of(name) is None:
                self._rows.show_all()
                self.list_again()
            self._go_to(name)
        pane = self._charts.of(self._selected)
        if pane is not None:
            self.to_front(pane)
            focus_now(pane.chart)

    def action_back(self) -> None:
        """From a chart to the list; from there the filter goes; then out of the monitor."""
        if isinstance(self.screen.focused, Chart):
            if self.screen.maximized is not None:
                self.screen.minimize()
                return
            self.to_front(self.query_one("#metrics-pane", Pane))
            focus_now(self._list)
        elif self._rows.text:
            self.clear_filter()
        else:
            self.call_later(self.screen.run_action, "screen.back")

    def action_pin(self) -> None:
        name = self._selected
        if name:
            self._rows.pin(name)
            self.list_again()
            self._go_to(name)

    async def action_limits(self) -> None:
        from rltui.screens.monitor.limits import LimitsScreen

        if self._selected:
            name = self._selected
            screen = LimitsScreen(name, self._charts.options(name).limits)
            await self.app.push_screen(screen, lambda limits: self._limit(name, limits))

    def _limit(self, name: str, limits: Limits | None) -> None:
        pane = self._charts.of(name)
        if limits is not None and pane is not None:
            pane.chart.set_options(limits=limits)
            self._charts.keep(pane)

    def action_copy(self) -> None:
        store, cursor = self._store, self._charts.shared.cursor
        series = store.get(self._selected) if store is not None else None
        point = series.last() if series is not None and cursor is None else series and series.at(cursor or 0.0)
        if point:
            own_app(self).copy(f"{self._selected} at step {place(point[0])}: {point[1]:.10g}", number(point[1]))

    def action_write(self) -> None:
        store = self._store
        if store is None or not self._selected:
            return
        lines = [f"step,{self._selected}"]
        lines += [f"{x:.10g},{'' if y is None else repr(y)}" for x, y in values(store, self._selected)]
        stem = f"{self._opened.name}-{self._selected.replace('/', '-')}"
        write_text(self, stem, "\n".join(lines) + "\n", ".csv")

    def action_cursor_left(self) -> None:
        self._move_cursor(-1)

    def action_cursor_right(self) -> None:
        self._move_cursor(1)

    def _move_cursor(self, direction: int) -> None:
        """From the list too: by the chart of its metric."""
        pane = self._charts.of(self._selected)
        if pane is not None:
            pane.chart.move_cursor(direction)

    def action_previous(self) -> None:
        self._by(-1)

    def action_next(self) -> None:
        self._by(1)

    def action_previous_page(self) -> None:
        self._by(-self._charts.capacity)

    def action_next_page(self) -> None:
        self._by(self._charts.capacity)

    def action_first(self) -> None:
        self._by(-len(self._rows))

    def action_last(self) -> None:
        self._by(len(self._rows))

    def follow(self) -> None:
        """Back to the whole run up to now, without a cursor."""
        self._charts.share(view=None, cursor=None)

    # Memory

    def place(self) -> dict[str, Any]:
        return {**self._rows.place(), "metric": self._selected}

    def restore(self, place: dict[str, Any]) -> None:
        self._rows.restore(place)
        metric = place.get("metric")
        self._selected = metric if isinstance(metric, str) else ""
