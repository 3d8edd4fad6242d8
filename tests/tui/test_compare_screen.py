"""Screen 6: which runs it takes, what it shows of them, and where its keys lead."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from textual.widget import Widget

from rltui.cli.main import main
from rltui.model.along import AXES
from rltui.screens.compare.curves import Curves, RunsChart
from rltui.screens.compare.episodes import SidePane
from rltui.screens.compare.screen import CompareScreen
from rltui.screens.compare.seeds import SeedList
from rltui.screens.config.screen import ConfigScreen
from rltui.screens.monitor.screen import MonitorScreen
from rltui.widgets.transcript import Transcript
from tests.tui.app_driver import build, run_in, screen_text, until
from tests.tui.configured_run import configured

SIZE = (140, 44)


@pytest.fixture(scope="module")
def made(tmp_path_factory: pytest.TempPathFactory) -> list[Path]:
    """alpha (the baseline) and beta, which is judged; by name: synthetic runs begin at one and the same time."""
    folder = tmp_path_factory.mktemp("runs")
    more = {"episodes": 640, "turns": 2, "learner_blocks": False}
    rate = "training.learning_rate=7e-4"
    return [configured(folder, "alpha", 1, **more), configured(folder, "beta", 2, rate, judge=True, **more)]


@pytest.fixture
def two(made: list[Path], folder: Path) -> Path:
    """Their folder; `folder` gives the app a place of its own."""
    return made[0].parent


async def compared(app, pilot, count=2):
    """The screen with the first `count` runs of the list, read to their ends."""
    await until(app, lambda: len(app.get_screen("runs").rows) >= count)
    await pilot.press(*["space"] * count, "6")
    await until(app, f"{count} runs ─╮")
    await until(app, "keys differ")
    return app.screen


def shown(screen) -> list[str]:
    """The lines of the list of runs."""
    return [line for line in screen_text(screen.app).splitlines() if " alpha " in line or " beta " in line][:2]


async def test_without_two_marked_runs_it_says_how_to_mark_them(folder):
    run_in(folder, "alpha")
    app = build(folder)
    async with app.run_test(size=(80, 24)) as pilot:
        await until(app, "1 run")
        await pilot.press("6")
        await until(app, "Mark two runs with space in Runs")
        await pilot.press("1", "space", "6")
        await until(app, "One run is marked.")
        await pilot.press("b", "a", "d", "t", "]", ",", "/", "escape", "y", "escape")
        await until(app, "1 run")


async def test_every_number_is_that_of_json(two, made, capsys):
    app = build(two)
    async with app.run_test(size=(200, 50)) as pilot:
        screen = await compared(app, pilot)
        text = await until(app, "training.learning_rate")
    assert main(["compare", *map(str, made), "--json"]) == 0
    data = json.loads(capsys.readouterr().out)
    test, rows = data["evaluation"]["tests"][1], data["runs"]
    for run, line in zip(rows, [line for line in text.splitlines() if "✓" in line], strict=True):
        for value in (run["reward"], run["eval_reward"], run["best_eval"]):
            assert f"{value:.3f}" in line
        assert f"{run['step']}/{run['steps']}" in line and f" {run['eval_step']} " in line
    assert f"{test['mean']:+.3f}" in text and f"{test['p']:.3f}" in text
    assert f"{test['low']:+.3f} to {test['high']:+.3f}" in text
    assert data["evaluation"]["words"][0] in text
    assert f"{len(data['config'])} of {data['keys']} keys differ" in text and "training.learning_rate" in text
    assert isinstance(screen, CompareScreen)


async def test_the_baseline_and_the_axis_change(two):
    app = build(two)
    async with app.run_test(size=SIZE) as pilot:
        screen = await compared(app, pilot)
        before = screen._comparison.tests()[1].mean
        assert "baseline" in shown(screen)[0] and f"{before:+.3f}" in shown(screen)[1]
        await pilot.press("j", "b")
        await until(app, lambda: f"{-before:+.3f}" in shown(screen)[0] and "baseline" in shown(screen)[1])
        chart = screen.query_one(Curves).page[0].chart
        assert [series.index for series in chart._series] == [1, 0]  # the baseline lies in front
        for axis in (*AXES[1:], AXES[0]):
            await pilot.press("a")
            await until(app, lambda axis=axis: chart.options.axis.name == axis)
            assert all(series.pyramid.range() for series in chart._series)


async def test_diff_only_or_all_keys_and_enter_edits_the_config_of_a_value(two):
    app = build(two)
    async with app.run_test(size=SIZE) as pilot:
        screen = await compared(app, pilot)
        few = len(screen.config_rows)
        await pilot.press("d")
        await until(app, "all keys")
        assert len(screen.config_rows) > few + 100
        await pilot.press("d", "tab")
        at = next(i for i in range(few) if screen.config_rows.row(i).value == 1)
        await pilot.press(*["j"] * at, "enter")
        await until(app, lambda: isinstance(app.screen, ConfigScreen) and app.screen.form is not None)
        await until(app, "learning_rate")


async def test_a_seed_side_by_side_in_runs_and_over_time(two):
    app = build(two)
    async with app.run_test(size=SIZE) as pilot:
        screen = await compared(app, pilot)
        await pilot.press("]", "tab")
        assert isinstance(screen.focused, SeedList)
        seed = screen.seed_rows.row(0).seed
        panes = [pane for pane in screen.query(SidePane) if pane.display]
        await until(app, lambda: [pane.side.run for pane in panes if pane.side] == [0, 1])
        for pane in panes:
            episode = pane.query_one(Transcript).model.episode
            assert episode["seed"] == seed and episode["split"] == "eval" and episode["iteration"] == 20
        await pilot.press("t")
        await until(app, "Seeds of alpha over time")
        await until(
            app, lambda: [pane.side.title for pane in screen.query(SidePane) if pane.display] == ["step 20", "step 40"]
        )
        await pilot.press(",")
        await until(app, "evaluations: up to step 20")
        await until(
            app, lambda: [pane.side.title for pane in screen.query(SidePane) if pane.display] == ["step 0", "step 20"]
        )
        await pilot.press("enter")
        await until(app, lambda: isinstance(screen.focused, Transcript))
        await pilot.press("right")
        await until(app, lambda: screen.focused is panes[1].query_one(Transcript))
        await pilot.press("escape", "escape", "escape")
        await until(app, "by newest")


async def test_a_point_of_a_curve_leads_to_the_evaluation_before_it(two):
    app = build(two)
    async with app.run_test(size=SIZE) as pilot:
        screen = await compared(app, pilot)
        await pilot.press("tab", "tab")
        assert isinstance(screen.focused, RunsChart)
        for _ in range(2):
            await pilot.press("h")
        cursor = screen.focused.options.cursor
        assert cursor is not None and all(pane.chart.options.cursor == cursor for pane in screen.query_one(Curves).page)
        await pilot.press("s")
        await until(app, f"evaluations: up to step {int(cursor)}")
        assert isinstance(screen.focused, SeedList)


async def test_curves_are_filtered_and_missing_ones_named(two):
    app = build(two)
    async with app.run_test(size=SIZE) as pilot:
        screen = await compared(app, pilot)
        await until(app, "metrics are missing in")
        await pilot.press("/", *"judge/lat", "enter")
        await until(app, "curve 1 of 1 that match judge/lat")
        assert "not in alpha" in screen_text(app)
        assert [series.index for series in screen.query_one(Curves).page[0].chart._series] == [1]


async def test_one_part_at_a_time_where_there_is_little_room(two):
    app = build(two)
    async with app.run_test(size=(80, 24)) as pilot:
        await compared(app, pilot)
        for wanted in ("keys differ", "reward/mean", "by difference", "turn 0"):
            await pilot.press("tab")
            await until(app, wanted)
        await pilot.press("tab")
        await until(app, lambda: app.screen.focused.id == "compared")
        await pilot.press("[")
        await until(app, "by difference")
        await pilot.press("enter")
        await until(app, lambda: isinstance(app.screen, MonitorScreen))


async def test_what_is_as_it_was_is_not_drawn_again(two, monkeypatch):
    app = build(two)
    async with app.run_test(size=SIZE) as pilot:
        screen = await compared(app, pilot)
        drawn: list[object] = []
        for page in ("reward/mean", "by difference"):
            await until(app, page)
            await pilot.pause()
            with monkeypatch.context() as patch:
                patch.setattr(Widget, "refresh", lambda widget, *regions, **how: drawn.append((widget, regions, how)))
                screen._update()
            assert drawn == []
            await pilot.press("]")
