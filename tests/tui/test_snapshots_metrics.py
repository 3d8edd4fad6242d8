"""The Metrics tab with its empty states, at three sizes and in all looks: see snapshot.py."""

from __future__ import annotations

from rltui.screens.monitor.metric_charts import MetricCharts
from tests.tui.test_snapshots import Open, Walk, opening, run, world

__all__ = ["opening", "world"]  # fixtures
TAB = slice(3, -1)  # rows: below header, tabs and progress, above the keys


async def drawn(walk: Walk) -> None:
    """Each chart says its last value."""
    page = walk.app.screen.query_one(MetricCharts).page
    await walk.until(lambda: page and all(pane.chart.description.last is not None for pane in page))


async def test_metrics(opening: Open) -> None:
    async with opening(run=run("anna")) as walk:
        await walk.until("step 20/20")
        await walk.press("M")
        await walk.until("reward/mean")
        await drawn(walk)
        await walk.snap("metrics", only=TAB, wide=True)
        await walk.press("j", "enter", "h", "h", "h", "h")
        await walk.until("step 14" if walk.variant != "80x24" else "step 1")
        await walk.press("m")
        await walk.until("The y-axis of")
        await walk.press("1", " ", "0", "enter")
        await walk.until("is not below")
        await walk.snap("metrics_limits", only="LimitsScreen > Pane")
        await walk.press("escape", "z", "Y", "+")
        await walk.until("log y")
        await walk.snap("metrics_zoomed", only=slice(1, -1))
        await walk.press("z", "/", *"no such")
        await walk.until("No metric has")
        await walk.snap("metrics_no_match", only=TAB, count="0 of ")


async def test_metrics_before_the_first_step(opening: Open) -> None:
    async with opening(run="new/empty-rl_0000000000000007") as walk:
        await walk.until("Waiting for the first step")
        await walk.press("M")
        await walk.until("No metric yet")
        await walk.snap("metrics_empty", only=TAB)
