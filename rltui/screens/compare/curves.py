"""The curves of all runs over one another: a page of charts, as many as there is room for."""

from __future__ import annotations

from collections.abc import Sequence
from typing import ClassVar

from textual.app import ComposeResult
from textual.binding import BindingType
from textual.containers import Container
from textual.message import Message

from rltui.charts.parts import Mark
from rltui.charts.smooth import default_weight, titled
from rltui.model.compare import Comparison
from rltui.screens.monitor.metric_charts import fitting
from rltui.text import width
from rltui.widgets.bindings import bindings
from rltui.widgets.chart import Chart
from rltui.widgets.pane import Pane

_VALUE = 12  # cells of a legend for a marker, a value and gaps


class RunsChart(Chart, inherit_bindings=False):
    """One metric of several runs."""

    BINDINGS: ClassVar[list[BindingType]] = bindings("curves")

    class AxisAsked(Message):
        """`a`: the axis is that of all charts."""

    class SeedsAsked(Message):
        """The evaluations up to `x` are wanted; None: there is no cursor."""

        def __init__(self, x: float | None) -> None:
            super().__init__()
            self.x = x

    def check_action(self, action: str, parameters: tuple[object, ...]) -> bool | None:
        """What lies behind a point is not the same in all runs."""
        return action != "open"

    def action_labels(self) -> None:
        """Another axis."""
        self.post_message(self.AxisAsked())

    def action_seeds(self) -> None:
        """The evaluations up to the cursor."""
        self.post_message(self.SeedsAsked(self.options.cursor))


class CurvePane(Pane):
    """One of the page; which metric it shows changes."""

    def __init__(self) -> None:
        self.chart = RunsChart()
        super().__init__(self.chart)
        self.metric = ""


class Curves(Container):
    """Call `show` for another comparison or axis, `refresh_data` when the data have grown."""

    DEFAULT_CSS = """
    Curves { layout: grid; grid-size: 1 1; width: 3fr; height: 1fr; }
    """

    def __init__(self) -> None:
        super().__init__()
        self._comparison: Comparison | None = None
        self._names: list[str] = []
        self._first = 0  # place of the first metric of the page
        self._drawn: object = None  # what the charts were set to
        self._room = (1, 1)
        self.note = ""  # how the metrics were chosen

    def compose(self) -> ComposeResult:
        """As many as the screen may have room for."""
        columns, rows = fitting(self.app.size.width, self.app.size.height)
        for _ in range(columns * rows):
            yield CurvePane()

    @property
    def page(self) -> list[CurvePane]:
        """Those in use."""
        return [pane for pane in self.query(CurvePane) if pane.metric]

    def _place(self) -> str:
        """ "curves 1-4 of 56"."""
        last = min(len(self._names), self._first + self._most)
        shown = f"curve {last}" if last == self._first + 1 else f"curves {self._first + 1}-{last}"
        if not self._names:
            return f"no metric{self.note and ' '}{self.note}"
        return f"{shown} of {len(self._names)}{self.note and ' '}{self.note}"

    @property
    def _most(self) -> int:
        return self._room[0] * self._room[1]

    def fit_to(self, columns: int, rows: int) -> None:
        """Lay them out in this much room."""
        room = fitting(columns, rows)
        if room == self._room:
            return
        self._room = room
        missing = self._most - len(self.query(CurvePane))
        if missing > 0:
            self.mount(*(CurvePane() for _ in range(missing)))
        self.call_after_refresh(self._set)

    def show(self, comparison: Comparison, names: Sequence[str]) -> None:
        """Show these metrics, beginning where the page is."""
        if comparison is not self._comparison:
            self._first = 0
        self._comparison, self._names = comparison, list(names)
        self._set()

    def on_resize(self) -> None:
        """The names have more room, or less."""
        self._set()

    def turn(self, by: int) -> None:
        """So many pages on."""
        first = self._first + by * self._most
        if 0 <= first < len(self._names):
            self._first = first
            self._set()

    def _set(self) -> None:
        """Have each pane show its metric; one that shows it already is left alone."""
        comparison = self._comparison
        if comparison is None:
            return
        self._first = min(self._first, max(0, (len(self._names) - 1) // self._most * self._most))
        page = self._names[self._first : self._first + self._most]
        having = tuple(tuple(name in run.metrics.series for run in comparison.runs) for name in page)
        room = self.size.width // self._room[0] - 2
        # The list of runs above has the names beside the markers.
        words = comparison.names if sum(width(name) + _VALUE for name in comparison.names) <= room else None
        wanted = comparison, comparison.overlay.axis, comparison.baseline, tuple(page), having, words is None
        same = wanted == self._drawn
        self._drawn = wanted
        columns = min(self._room[0], max(1, len(page)))
        self.styles.grid_size_columns, self.styles.grid_size_rows = columns, max(1, -(-len(page) // columns))
        marks = comparison.marks()
        for i, pane in enumerate(self.query(CurvePane)):
            pane.metric = page[i] if i < len(page) else ""
            pane.display = bool(pane.metric) or not i
            if pane.metric and not same:
                self._put(pane, comparison, words or [""] * len(comparison.runs), marks)
            elif pane.metric:
                pane.chart.set_options(marks=marks)
            elif not i:
                pane.set_title("Curves")
                pane.chart.set_series([])
            pane.set_subtitle(self._place() if i == max(0, len(page) - 1) else "")

    def _put(self, pane: CurvePane, comparison: Comparison, words: Sequence[str], marks: tuple[Mark, ...]) -> None:
        overlay, name = comparison.overlay, pane.metric
        chart = pane.chart
        chart.set_series(
            overlay.series(name, words, comparison.baseline),
            ema=default_weight(name),
            axis=overlay.labels() if chart.options.axis.name != overlay.axis else chart.options.axis,
            marks=marks,
        )
        lacking = [comparison.names[i] for i, run in enumerate(comparison.runs) if run.metrics.get(name) is None]
        pane.set_title(titled(name, chart.ema))
        pane.set_info(f"not in {', '.join(lacking)}" if lacking else "")

    def retitle(self, chart: Chart) -> None:
        """Say how a chart is smoothed now."""
        for pane in self.page:
            if pane.chart is chart:
                pane.set_title(titled(pane.metric, chart.ema))

    def refresh_data(self) -> None:
        """Draw what is seen of the new data."""
        comparison = self._comparison
        if comparison is None:
            return
        for pane in self.page:
            comparison.overlay.update(pane.metric)
            pane.chart.refresh_data()

    def share(self, **changes: object) -> None:
        """Change how all of them are shown."""
        for pane in self.query(CurvePane):
            pane.chart.set_options(**changes)
