"""The tab that says who waits for whom, where the time of a step goes, and what the machine does."""

from __future__ import annotations

from collections.abc import Hashable
from functools import partial
from typing import TYPE_CHECKING, Any, ClassVar

from rich.segment import Segment
from textual import on
from textual.app import ComposeResult
from textual.binding import BindingType
from textual.containers import Container

from rltui.charts.parts import Series
from rltui.model.lag_feed import LagFeed
from rltui.model.pipeline_text import over_words, percent, wait_detail, wait_numbers, wait_words
from rltui.model.pipeline_view import pipeline_view
from rltui.screens.monitor import pipeline_draw as draw
from rltui.screens.monitor.tab import OpenTab, Tab
from rltui.text import fit, width
from rltui.widgets.bindings import bindings
from rltui.widgets.chart import Chart
from rltui.widgets.drawn import Drawn, Row
from rltui.widgets.lines import focus_now, look_of
from rltui.widgets.pane import Pane
from rltui.widgets.virtual_list import VirtualList

if TYPE_CHECKING:
    from rltui.look.look import Look
    from rltui.model.run import RunModel
    from rltui.opened import OpenRun

RATES = (
    ("throughput/gen_tokens_per_sec", "rollouts"),
    ("throughput/train_tokens_per_sec", "trainer"),
)
_SPARK = 20  # samples of a GPU
_NUMBERS = 10  # cells


class WaitRows:
    """A row a wait, and its detail below it once it is opened."""

    def __init__(self) -> None:
        self._waits: list[dict[str, Any]] = []
        self._open: set[str] = set()
        self._rows: list[tuple[int, int, str]] = []  # which wait, and a line of its detail; 0 is the wait itself

    def update(self, waits: list[dict[str, Any]]) -> None:
        self._waits = waits
        self._rows = []
        for i, wait in enumerate(waits):
            self._rows.append((i, 0, ""))
            if wait["for"] in self._open:
                self._rows += [(i, at, line) for at, line in enumerate(wait_detail(wait), 1)]

    def toggle(self, i: int) -> None:
        self._open ^= {self._waits[self._rows[i][0]]["for"]}
        self.update(self._waits)

    def __len__(self) -> int:
        return len(self._rows)

    def key(self, i: int) -> Hashable:
        wait, at, _ = self._rows[i]
        return self._waits[wait]["for"], at

    def cells(self, i: int, cells: int, look: Look) -> list[Segment]:
        at, _, line = self._rows[i]
        wait = self._waits[at]
        if line:
            return [Segment(f"          {fit(line, max(0, cells - 10))}", look.style("dim"))]
        fold = look.glyph("fold_open" if wait["for"] in self._open else "fold_closed")
        style = look.style("watch" if wait["now"] else "text")
        share = percent(wait["share"]) if wait["share"] is not None else "now"
        room = max(8, cells - 11 - _NUMBERS)
        told = fit(wait_words(wait), room)
        head = f" {fold} {share:>6}  {told}{' ' * (room - width(told))}"
        return [Segment(head, style), Segment(f"{fit(wait_numbers(wait), _NUMBERS):>{_NUMBERS}}", look.style("dim"))]


class Waits(VirtualList, inherit_bindings=False):
    """The list of waits; enter unfolds one."""

    BINDINGS: ClassVar[list[BindingType]] = bindings("pipeline")

    def __init__(self) -> None:
        self._waits = WaitRows()
        super().__init__(self._waits, id="waits")

    def show(self, waits: list[dict[str, Any]]) -> None:
        self._waits.update(waits)
        self.update_rows()

    def action_open(self) -> None:
        if len(self._waits):
            self._waits.toggle(self.cursor)
            self.update_rows()


class Pipeline(Tab):
    tab = "pipeline"
    LEAST_ROWS = 36  # 13 + 10 + 5 + 8
    DEFAULT_CSS = """
    Pipeline > Container { layout: grid; grid-size: 2 4; grid-rows: 13 10 1fr 8; height: 1fr; }
    Pipeline > Container > #pane-flow { column-span: 2; }
    Pipeline > Container > #pane-rates { row-span: 2; }
    Pipeline.-narrow > Container { grid-size: 1 1; grid-rows: 1fr; }
    Pipeline.-narrow > Container > #pane-flow { column-span: 1; }
    Pipeline.-narrow > Container > #pane-rates { row-span: 1; }
    """

    def __init__(self, opened: OpenRun) -> None:
        super().__init__()
        self._opened = opened
        self._model: RunModel | None = None
        self._shown: tuple[str, ...] = ()
        self._gpus = 0

    def compose(self) -> ComposeResult:
        with Container():
            yield Pane(Drawn(id="flow"), title="Pipeline", id="pane-flow", classes="-front")
            yield Pane(Waits(), title="Who waits for whom", id="pane-waits")
            yield Pane(Drawn(id="split"), title="Time of a step", id="pane-split")
            yield Pane(Chart(ema=0.6, id="rates"), title="Tokens per second", id="pane-rates")
            yield Pane(Drawn(id="lags"), title="Lag of episodes", id="pane-lags")
            yield Pane(Drawn(id="machine"), title="Machine", id="pane-machine")

    def start(self) -> None:
        focus_now(self.query_one(Waits if not self.has_class("-narrow") else "#flow"))

    def update(self, model: RunModel, what: frozenset[str]) -> None:
        if self._model is not model:
            self._model = model
            model.feed(LagFeed)
            self._opened.look_now()
        if not what & {"status", "metrics", "lags"}:
            return
        lags = model.feed(LagFeed)
        view = pipeline_view(model.status, model.metrics, lags.counts(), model.now())
        self.query_one("#flow", Drawn).show(partial(self._flow, view))
        self.query_one(Waits).show(view["waits"])
        self.query_one("#split", Drawn).show(partial(draw.split_rows, view))
        self.query_one("#lags", Drawn).show(partial(draw.lag_rows, view))
        bars = look_of(self).bars
        gpus = _indexed(view)
        several = len(gpus) > 1
        sparks = {i: self._spark(f"system/gpu_util_{i}" if several else "system/gpu_util", bars) for i in gpus}
        self.query_one("#machine", Drawn).show(partial(draw.machine_rows, view, sparks))
        self._say(view)
        if "metrics" in what:
            self._draw_rates(model)
        self.query_one(Chart).set_options(growing=model.live)

    def _flow(self, view: dict[str, Any], cells: int, look: Look) -> list[Row]:
        return draw.flow_rows(view, cells, look, alone=self.has_class("-narrow"))

    def _say(self, view: dict[str, Any]) -> None:
        over = over_words(view)
        self.query_one("#pane-flow", Pane).set_info(over)
        self.query_one("#pane-split", Pane).set_info(over)
        self._gpus = len(view["machine"]["gpus"])
        self._say_gpus()
        self.query_one("#pane-waits", Pane).set_info("a step" if view["waits"] else "nobody waited")
        lag = view["lag"]
        known = [f"{name} {lag[name]:g}" for name in ("mean", "max", "limit") if lag[name] is not None]
        self.query_one("#pane-lags", Pane).set_info(", ".join(known))

    @on(Drawn.Moved, "#machine")
    def _say_gpus(self) -> None:
        """How many there are, and which of them are in view."""
        count, (first, end) = self._gpus, self.query_one("#machine", Drawn).shown
        end = min(end, count)
        part = f"GPUs {first + 1}-{end} of {count}" if 0 < end - first < count else f"{count} GPUs"
        self.query_one("#pane-machine", Pane).set_info(part if count > 4 else "")

    def _spark(self, name: str, bars: str) -> str:
        series = self._model.metrics.get(name) if self._model is not None else None
        if series is None:
            return ""
        _, ys = series.points(max(0, len(series) - _SPARK), len(series))
        top = len(bars) - 1
        return "".join(bars[max(1, min(top, round(y * top)))] if y == y else bars[0] for y in ys)

    def _draw_rates(self, model: RunModel) -> None:
        found = [(name, word) for name, word in RATES if model.metrics.get(name) is not None]
        chart, names = self.query_one(Chart), tuple(name for name, _ in found)
        if names != self._shown:
            self._shown = names
            chart.set_series([Series(word, model.metrics.series[name], i) for i, (name, word) in enumerate(found)])
        else:
            chart.refresh_data()

    @on(Chart.Opened)
    def _chart_opened(self, event: Chart.Opened) -> None:
        point = self._model.metrics.labels["iteration"].at(event.x) if self._model is not None else None
        if point is not None:
            self.post_message(OpenTab("rollouts", iteration=int(point[1])))

    def follow(self) -> None:
        self.query_one(Chart).set_options(view=None, cursor=None)


def _indexed(view: dict[str, Any]) -> list[int]:
    return [int(gpu["index"]) for gpu in view["machine"]["gpus"] if isinstance(gpu.get("index"), int)]
