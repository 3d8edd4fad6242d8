"""The tab of the judge: its scores over time, against the task app's rewards, and how its calls go."""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING

from textual import on
from textual.app import ComposeResult
from textual.containers import Container

from rltui.charts.parts import Series
from rltui.charts.smooth import titled
from rltui.model.judge_feed import JudgeFeed, Pair
from rltui.model.judge_view import judge_view
from rltui.model.pipeline_text import seconds
from rltui.screens.monitor.judge_draw import call_rows, spread_rows
from rltui.screens.monitor.tab import OpenTab, Tab
from rltui.widgets.chart import Chart
from rltui.widgets.drawn import Drawn
from rltui.widgets.instead import Instead
from rltui.widgets.lines import focus_now
from rltui.widgets.pane import Pane
from rltui.widgets.scatter import Scatter
from rltui.words import short

if TYPE_CHECKING:
    from rltui.model.run import RunModel
    from rltui.opened import OpenRun

TRACKS = "Score by track"
OWN = ("judge/latency", "judge/failed", "judge/agreement")  # of judge/*: no tracks
MOST = 12  # episodes that one filter names


class JudgeTab(Tab):
    tab = "judge"
    DEFAULT_CSS = """
    JudgeTab > Container { layout: grid; grid-size: 2 3; grid-rows: 8fr 6fr 4fr; height: 1fr; }
    JudgeTab > Container > #pane-latency { row-span: 2; }
    JudgeTab.-narrow > Container { grid-size: 1 1; grid-rows: 1fr; }
    JudgeTab.-narrow > Container > #pane-latency { row-span: 1; }
    JudgeTab > Instead { display: none; height: 3; margin: 1 0; }
    JudgeTab.-none > Instead { display: block; }
    JudgeTab.-none > Container { display: none; }
    """

    def __init__(self, opened: OpenRun) -> None:
        super().__init__()
        self._opened = opened
        self._model: RunModel | None = None
        self._shown: tuple[str, ...] = ()
        self._pairs: tuple[Pair, ...] = ()
        self._series: object = None

    def compose(self) -> ComposeResult:
        yield Instead()
        with Container():
            yield Pane(Chart(ema=0.6, id="tracks"), title=titled(TRACKS, 0.6), id="pane-tracks", classes="-front")
            yield Pane(
                Scatter("task app's reward", "judge", id="scatter"), title="Judge and task app", id="pane-scatter"
            )
            yield Pane(Chart(id="latency"), title="Seconds of a call", id="pane-latency")
            yield Pane(Drawn(id="calls"), title="Calls", id="pane-calls")
            yield Pane(Drawn(id="spread"), title="Scores of all calls", id="pane-spread")

    @on(Chart.Adjusted, "#tracks")
    def _adjusted(self, event: Chart.Adjusted) -> None:
        self.query_one("#pane-tracks", Pane).set_title(titled(TRACKS, event.chart.ema))

    def start(self) -> None:
        if not self.has_class("-none"):
            focus_now(self.query_one("#tracks"))

    def update(self, model: RunModel, what: frozenset[str]) -> None:
        if self._model is not model:
            self._model = model
            model.feed(JudgeFeed)
            self._opened.look_now()
        feed = model.feed(JudgeFeed)
        view = judge_view(feed, model.status)
        judged = bool(view["tries"] or view["cached"])
        self.set_class(not judged, "-none")
        if judged and not self.has_pseudo_class("focus-within"):
            self.start()  # there was nothing to put it on
        if not judged:
            if self.has_pseudo_class("focus-within"):
                self.screen.set_focus(None)  # there is nothing to move in
            self._say_none(bool(view.get("source")), model.live)
            return
        if "metrics" in what or not self._shown:
            self._draw_tracks(model)
        if "judge" in what or self._series is None:
            self._draw_calls(feed)
        if what & {"judge", "status"}:
            self.query_one("#calls", Drawn).show(partial(call_rows, view))
            self.query_one("#spread", Drawn).show(partial(spread_rows, view))
            found = view["recent"]
            rank = f"rank corr. {found['agreement']:+.2f}, " if found["agreement"] is not None else ""
            self.query_one("#pane-scatter", Pane).set_info(f"{rank}newest {found['episodes']}")
        for chart in self.query(Chart):
            chart.set_options(growing=model.live)

    def _say_none(self, enabled: bool, live: bool) -> None:
        if enabled and live:
            said = ("The judge has not been asked yet: it is when the first episode ends", "dim")
            self.query_one(Instead).say(said)
        else:
            self.query_one(Instead).say(
                ("No episode of this run was judged", "text"),
                (
                    "judge.enabled asks for a judge; rltui rejudge RUN --rubric FILE tries one on recorded episodes",
                    "dim",
                ),
            )

    def _draw_tracks(self, model: RunModel) -> None:
        tracks = [name for name in model.metrics.names() if name.startswith("judge/") and name not in OWN]
        names = tuple(tracks)
        chart = self.query_one("#tracks", Chart)
        if names != self._shown:
            self._shown = names
            chart.set_series(
                [Series(name.removeprefix("judge/"), model.metrics.series[name], i) for i, name in enumerate(names)]
            )
        else:
            chart.refresh_data()

    def _draw_calls(self, feed: JudgeFeed) -> None:
        chart = self.query_one("#latency", Chart)
        if self._series is not feed.p95:
            self._series = feed.p95
            chart.set_series([Series("p50", feed.p50, 0), Series("p95", feed.p95, 1)])
        else:
            chart.refresh_data()
        limit = f", limit {feed.timeout_s:g} s" if feed.timeout_s is not None else ""
        last50, last95 = feed.p50.last(), feed.p95.last()
        if last50 is not None and last95 is not None:
            said = f"p50 {seconds(last50[1])}, p95 {seconds(last95[1])}{limit}"
            pane = self.query_one("#pane-latency", Pane)
            pane.set_info(said)
            pane.set_subtitle("of the last iteration")
        if feed.pairs != self._pairs:
            self._pairs = feed.pairs
            self.query_one(Scatter).show([(pair.env, pair.score, pair.n) for pair in feed.pairs])

    @on(Scatter.Moved)
    def _moved(self, event: Scatter.Moved) -> None:
        """What lies under the cursor stands below the plot."""
        pane = self.query_one("#pane-scatter", Pane)
        found = [pair for pair in self._pairs if pair.n in set(event.keys)]
        if len(found) == 1:
            only = found[0]
            pane.set_subtitle(f"episode {only.n}: task app {short(only.env)}, judge {short(only.score)}")
        else:
            pane.set_subtitle(f"{len(found)} episodes" if found else "")

    @on(Scatter.Opened)
    def _opened_point(self, event: Scatter.Opened) -> None:
        self.post_message(OpenTab("rollouts", filter=" or ".join(f"n = {n}" for n in event.keys[-MOST:])))

    @on(Chart.CursorMoved)
    def _cursor_moved(self, event: Chart.CursorMoved) -> None:
        for chart in self.query(Chart):
            if chart is not event.chart:
                chart.set_cursor(event.x)

    @on(Chart.Opened)
    def _chart_opened(self, event: Chart.Opened) -> None:
        point = self._model.metrics.labels["iteration"].at(event.x) if self._model is not None else None
        if point is not None:
            self.post_message(OpenTab("rollouts", iteration=int(point[1])))

    def follow(self) -> None:
        for chart in self.query(Chart):
            chart.set_options(view=None, cursor=None)
