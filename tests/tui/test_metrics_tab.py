"""The Metrics tab under the pilot: its list and its page of charts go together, and its numbers are those of --json."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from textual.pilot import Pilot

from rltui.app import RltuiApp
from rltui.charts.parts import Description
from rltui.cli.main import main
from rltui.model.metrics import MetricStore
from rltui.screens.monitor.metric_charts import MetricCharts
from rltui.screens.monitor.metrics import Metrics
from rltui.widgets.chart import Chart
from rltui.widgets.virtual_list import VirtualList
from tests.tui.app_driver import build, run_in, screen_text, until


async def opened(app: RltuiApp, pilot: Pilot[None], step: str = "step 20/20") -> Metrics:
    """The tab, with its charts drawn."""
    await until(app, step)
    await pilot.press("M")
    await until(app, "reward/mean")
    return app.screen.query_one(Metrics)


def on_page(tab: Metrics) -> list[str]:
    return [pane.metric for pane in tab.query_one(MetricCharts).page]


async def test_the_charts_go_with_the_list_and_the_list_with_the_charts(folder: Path) -> None:
    app = build(folder, run_dir=run_in(folder, "alpha", episodes=320))
    async with app.run_test(size=(120, 40)) as pilot:
        tab = await opened(app, pilot)
        await until(app, lambda: on_page(tab)[:2] == ["reward/mean", "reward/std"] and len(on_page(tab)) == 6)
        await pilot.press("j", "enter")
        await until(app, lambda: isinstance(app.focused, Chart) and app.focused.parent.metric == "reward/std")
        await pilot.press("pagedown")
        await until(app, lambda: "reward/mean" not in on_page(tab) and app.focused.parent.metric == on_page(tab)[1])
        second = on_page(tab)
        await pilot.press("z", "j")
        await until(app, lambda: app.screen.maximized.metric == second[2])
        await until(app, second[2], lambda: second[1] not in screen_text(app))
        await pilot.press("z")
        await until(app, second[1], lambda: app.focused.parent.metric == second[2])
        await pilot.press("escape")
        assert tab.query_one("#metrics", VirtualList).has_focus


async def test_the_cursor_moves_from_the_list_too(folder: Path) -> None:
    app = build(folder, run_dir=run_in(folder, "alpha", episodes=320))
    async with app.run_test(size=(120, 40)) as pilot:
        tab = await opened(app, pilot)
        await until(app, "h/l cursor")
        await pilot.press("h", "h")
        assert tab.query_one("#metrics", VirtualList).has_focus
        cursors = {pane.chart.options.cursor for pane in tab.query_one(MetricCharts).page}
        assert len(cursors) == 1 and None not in cursors
        await pilot.press("l", "l")
        assert {pane.chart.options.cursor for pane in tab.query_one(MetricCharts).page} == {None}


async def test_who_is_on_the_first_metric_stays_on_the_first(folder: Path) -> None:
    """The first numbers of a fresh run are not those that the list begins with."""
    store, rows = MetricStore(), [{"step": 0, "system/memory": 1.0}, {"step": 1, "reward/mean": 0.5}]
    app = build(folder, run_dir=run_in(folder, "alpha", episodes=320))
    async with app.run_test(size=(120, 40)) as pilot:
        tab = await opened(app, pilot)
        app.opened.model.metrics = store
        metrics = tab.query_one("#metrics", VirtualList)
        for row, first in zip(rows, ("system/memory", "reward/mean"), strict=True):
            store.add([row])
            tab._drawn_at = -1e9  # at once
            tab.update(app.opened.model, frozenset({"metrics"}))
            await until(app, lambda first=first: (tab.place()["metric"], metrics.cursor) == (first, 1))


async def test_the_cursor_the_range_and_the_labels_are_everybodys_the_rest_is_the_metrics_own(folder: Path) -> None:
    app = build(folder, run_dir=run_in(folder, "alpha", episodes=320))
    async with app.run_test(size=(120, 40)) as pilot:
        tab = await opened(app, pilot)
        await pilot.press("enter", "h", "h", "+", "a", "a", "Y", "e")
        charts = [pane.chart for pane in tab.query_one(MetricCharts).page]
        first, second = charts[0], charts[1]
        assert first.options.cursor is not None and first.options.view is not None
        for name in ("cursor", "view", "axis"):
            assert len({getattr(chart.options, name) for chart in charts}) == 1
        assert first.options.axis.name == "tokens" and "tokens" in screen_text(app)
        assert (first.options.log_y, second.options.log_y) == (True, False)
        assert (first.ema, second.ema) == (0.0, 0.6)
        await pilot.press("pagedown", "pageup")  # another metric in its place does not inherit
        assert first.options.log_y and first.ema == 0.0
        await pilot.press("F")
        assert {(chart.options.view, chart.options.cursor) for chart in charts} == {(None, None)}


async def test_a_frame_does_not_claim_a_log_scale_that_was_refused(folder: Path) -> None:
    app = build(folder, run_dir=run_in(folder, "alpha", episodes=320))
    async with app.run_test(size=(120, 40)) as pilot:
        await opened(app, pilot)
        await pilot.press("/", *"^gspo/loss$", "enter")
        await until(app, "1 of")
        await pilot.press("enter", "Y")
        text = await until(app, "log y needs > 0")
        assert text.replace("log y needs", "").count("log y") == text.count("Y log y")


async def test_a_logarithmic_x_axis_is_said_on_every_chart_that_has_it(folder: Path) -> None:
    app = build(folder, run_dir=run_in(folder, "alpha", episodes=320))
    async with app.run_test(size=(120, 40)) as pilot:
        tab = await opened(app, pilot)
        await pilot.press("/", *"^(gspo/loss|eval/reward_mean)$", "enter")
        await until(app, "2 of")
        await pilot.press("enter", "X")
        loss, reward = (tab.query_one(MetricCharts).of(name) for name in ("gspo/loss", "eval/reward_mean"))
        await until(app, "log x needs > 0", lambda: "log x" in str(loss.border_subtitle))
        assert "log x" not in str(reward.border_subtitle)  # it begins at step 0, and says so itself


async def test_filter_pins_folds_and_limits(folder: Path) -> None:
    app = build(folder, run_dir=run_in(folder, "alpha", episodes=320))
    async with app.run_test(size=(120, 40)) as pilot:
        tab = await opened(app, pilot)
        await pilot.press("/", *"^(gspo|eval)/.*[")
        await until(app, "unterminated character set at column 16")
        assert all(name.startswith(("gspo/", "eval/")) for name in on_page(tab))  # the last good one stays
        await pilot.press("backspace", "enter")
        await until(app, f"10 of {len(app.opened.model.metrics)}")
        await pilot.press("G", "p")
        await until(app, "pinned", lambda: on_page(tab)[0] == "gspo/ratio_min")
        await pilot.press("escape")
        await until(app, lambda: on_page(tab)[:2] == ["gspo/ratio_min", "reward/mean"])
        await pilot.press("m", *"2 1", "enter")
        await until(app, "2 is not below 1")
        await pilot.press(*["backspace"] * 3, *"0 2", "enter")
        await until(app, "y 0 to 2")
        await pilot.press("j", "enter")  # the heading of reward
        await until(app, lambda: "reward/mean" not in on_page(tab))
        await pilot.press("enter")
        await until(app, lambda: "reward/mean" in on_page(tab))
        assert tab.place()["pins"] == ["gspo/ratio_min"]


async def test_from_a_point_to_its_episodes_and_back(folder: Path) -> None:
    app = build(folder, run_dir=run_in(folder, "alpha", episodes=320))
    async with app.run_test(size=(120, 40)) as pilot:
        tab = await opened(app, pilot)
        await pilot.press("enter", "h", "h", "h")
        x = tab.query_one(MetricCharts).shared.cursor
        iteration = int(app.opened.model.metrics.labels["iteration"].at(x)[1])
        await pilot.press("enter")
        await until(app, f"iteration = {iteration}")
        await app.screen.run_action("screen.back")
        await until(app, "reward/std", lambda: tab.display)
        assert tab.query_one(MetricCharts).shared.cursor == x


async def test_its_numbers_are_those_of_metrics_json(folder: Path, capsys: Any) -> None:
    run = run_in(folder, "alpha", "resumed", episodes=320)
    assert main(["metrics", str(run), "--json"]) == 0
    told = json.loads(capsys.readouterr().out)
    app = build(folder, run_dir=run)
    async with app.run_test(size=(200, 60)) as pilot:
        tab = await opened(app, pilot)
        assert told["known"] == len(told["metrics"])
        assert [one["name"] for one in told["metrics"]][: len(on_page(tab))] == on_page(tab)
        await until(
            app, lambda: all(pane.chart.description.last is not None for pane in tab.query_one(MetricCharts).page)
        )
        for pane, one in zip(tab.query_one(MetricCharts).page, told["metrics"], strict=False):
            said: Description = pane.chart.description
            expected = one["ema"] or {"last": one["last"]}
            assert said.last == expected["last"] and said.gaps == one["nonfinite"], one["name"]
            if one["ema"]:
                assert (said.trend, said.trend_steps) == (expected["trend"], expected["trend_steps"])
        assert {mark.x for mark in pane.chart.options.marks} == {mark["step"] for mark in told["marks"]} != set()
        latest = app.opened.model.metrics.latest
        assert latest == {one["name"]: one["last"] for one in told["metrics"]}
