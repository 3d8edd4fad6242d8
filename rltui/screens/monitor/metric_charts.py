"""The charts of the Metrics tab: a page of them, as many as there is room for, whatever the run writes."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from typing import Any

from textual.app import ComposeResult
from textual.containers import Container

from rltui.charts.numbers import number
from rltui.charts.parts import Axis, Mark, Series
from rltui.charts.scale import Limits
from rltui.charts.smooth import default_weight
from rltui.model.metrics import MetricStore
from rltui.text import width
from rltui.widgets.chart import Chart
from rltui.widgets.lines import look_of
from rltui.widgets.pane import Pane

LEAST_COLUMNS, LEAST_ROWS = 42, 11  # of a chart with its border
MOST = 16  # charts of a page: each costs a draw a second
_BORDER = 10  # cells of the border's row that neither title nor value can have
_FLOOR = "gspo/clip_noise_floor"
_OVER_THE_FLOOR = ("gspo/clip_frac_low", "gspo/clip_frac_high")


@dataclass(frozen=True)
class Own:
    """How one metric is shown, for as long as the tab lives."""

    ema: float
    log_y: bool = False
    clip: bool = False
    limits: Limits = (None, None)

    def words(self) -> list[str]:
        """What is not plain about it."""
        low, high = (None if end is None else number(end) for end in self.limits)
        axis = f"y {low} to {high}" if low and high else f"y from {low}" if low else f"y to {high}" if high else ""
        return [
            *([f"EMA {self.ema:g}"] if self.ema else []),
            *(["log y"] if self.log_y else []),
            *(["clip"] if self.clip else []),
            *([axis] if axis else []),
        ]


@dataclass
class Shared:
    """How all of them are shown."""

    axis: Axis = field(default_factory=Axis)
    log_x: bool = False
    view: tuple[float, float] | None = None
    cursor: float | None = None
    marks: tuple[Mark, ...] = ()
    growing: bool = False


class ChartPane(Pane):
    """One of the page; which metric it shows changes."""

    def __init__(self, chart: Chart) -> None:
        super().__init__(chart, title="")
        self.chart = chart
        self.metric = ""
        self.words: list[str] = []
        self.selected = False

    def on_resize(self) -> None:
        """The trend has the room that the name leaves."""
        self.describe(self.selected)

    def describe(self, selected: bool) -> None:
        """Name, how it is smoothed, value and trend; less of the trend where the name needs the room."""
        self.selected = selected
        look, said = look_of(self), self.chart.description
        name = f"{self.metric} (EMA)" if self.chart.ema else self.metric
        title = f"{look.glyph('cursor')} {name}" if selected else name
        room = self.outer_size.width - _BORDER - width(title)
        whole = said.title(look)
        forms = (whole, whole.partition(" / ")[0], number(said.last) if said.last is not None else "")
        self.set_title(title)
        self.set_info(next((form for form in forms if width(form) <= room), ""))
        options = self.chart.options
        hidden = options.view is not None and options.cursor is not None  # the chart's own word gives way to the cursor
        refused = {note[:5] for note in said.notes if note.startswith("log ")}  # it is drawn linear, and says so
        words = [word for word in (*self.words, *(["log x"] if options.log_x else [])) if word not in refused]
        self.set_subtitle(", ".join([*words, *(["zoom"] if hidden else [])]))


class MetricCharts(Container):
    """Call `show` for another page, `refresh_data` when the data have grown."""

    DEFAULT_CSS = """
    MetricCharts { layout: grid; grid-size: 1 1; width: 1fr; height: 1fr; }
    """

    def __init__(self, axes: Sequence[Axis]) -> None:
        super().__init__()
        self._axes = axes
        self.shared = Shared(axes[0])
        self.own: dict[str, Own] = {}
        self._store = MetricStore()
        self._selected = ""
        self._panes: list[ChartPane] = []
        self.room = (1, 1)  # columns, rows

    def compose(self) -> ComposeResult:
        """As many as the screen may have room for: to mount them later would be felt."""
        columns, rows = fitting(self.app.size.width, self.app.size.height)
        for _ in range(columns * rows):
            yield self._new()

    def _new(self) -> ChartPane:
        self._panes.append(pane := ChartPane(Chart(axes=self._axes)))
        return pane

    @property
    def capacity(self) -> int:
        """Charts of a page."""
        return self.room[0] * self.room[1]

    @property
    def page(self) -> list[ChartPane]:
        """Those in use, in the order of the list."""
        return [pane for pane in self._panes if pane.metric]

    def of(self, name: str) -> ChartPane | None:
        """Who shows a metric now."""
        return next((pane for pane in self.page if pane.metric == name), None)

    def options(self, name: str) -> Own:
        """How a metric is shown."""
        return self.own.get(name) or Own(default_weight(name))

    def fit_to(self, columns: int, rows: int) -> bool:
        """Lay them out in this much room; True: another number fits now."""
        room = fitting(columns, rows)
        if room == self.room:
            return False
        self.room = room
        self.styles.grid_size_columns, self.styles.grid_size_rows = room
        missing = self.capacity - len(self._panes)
        if missing > 0:
            self.mount(*(self._new() for _ in range(missing)))
        return True

    def show(self, names: Sequence[str], store: MetricStore, selected: str) -> None:
        """Show these, in this order; a pane that shows its metric already is left alone."""
        same_store, self._store, self._selected = store is self._store, store, selected
        for i, pane in enumerate(self._panes):
            name = names[i] if i < len(names) else ""
            pane.display = bool(name) or not i
            if name and not (same_store and pane.metric == name):
                self.put(pane, name)
            pane.metric = name
        self.describe()

    def put(self, pane: ChartPane, name: str) -> None:
        """Have a pane show a metric."""
        own, shared = self.options(name), self.shared
        pane.metric, pane.words = name, own.words()
        pane.chart.set_series(
            [Series(name, self._store.series[name], 0)],
            ema=own.ema,
            log_y=own.log_y,
            clip=own.clip,
            limits=own.limits,
            band=self._band(name),
            **vars(shared),
        )

    def describe(self, selected: str | None = None) -> None:
        """Bring the borders up to date."""
        self._selected = self._selected if selected is None else selected
        for pane in self.page:
            pane.describe(pane.metric == self._selected)

    def refresh_data(self) -> None:
        """Draw what is seen of the new data."""
        for pane in self.page:
            if pane.metric in _OVER_THE_FLOOR:
                pane.chart.set_options(band=self._band(pane.metric))
            pane.chart.refresh_data()

    def share(self, **changes: Any) -> None:
        """Change how all of them are shown."""
        self.shared = replace(self.shared, **changes)
        for pane in self.page:
            pane.chart.set_options(**changes)
        self.describe()

    def keep(self, pane: ChartPane) -> None:
        """Keep what a person changed on one chart: some of it is the metric's own, some everybody's."""
        chart, options = pane.chart, pane.chart.options
        self.own[pane.metric] = own = Own(chart.ema, options.log_y, options.clip, options.limits)
        pane.words = own.words()
        self.share(axis=options.axis, log_x=options.log_x, view=options.view)

    def _band(self, name: str) -> tuple[float, float] | None:
        """The share that noise alone would clip."""
        floor = self._store.latest.get(_FLOOR)
        return (0.0, floor) if name in _OVER_THE_FLOOR and floor else None


def fitting(columns: int, rows: int) -> tuple[int, int]:
    """(columns, rows) of charts in so many cells."""
    across, down = max(1, columns // LEAST_COLUMNS), max(1, rows // LEAST_ROWS)
    while across * down > MOST:
        across, down = (across, down - 1) if down >= across else (across - 1, down)
    return across, down
