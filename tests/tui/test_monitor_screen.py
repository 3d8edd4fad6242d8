"""Screen 4 on synthetic runs: tabs, jumps, what is remembered, requests, the end."""

from __future__ import annotations

import json
from threading import Event

import pytest
from textual.widgets import Input

from rltui.screens.monitor.overview import Overview
from rltui.screens.monitor.screen import MonitorScreen
from rltui.sources.local import LocalRunSource
from rltui.widgets.log_view import LogView
from rltui.widgets.transcript import Transcript
from rltui.widgets.virtual_list import VirtualList
from tests.tui.app_driver import build, drawn, run_in, screen_text, type_at_once, until
from tests.tui.configured_run import configured
from tests.tui.quiet import at_rest


async def test_the_overview_shows_charts_events_and_what_it_does(folder):
    app = build(folder, run_dir=run_in(folder, "alpha", episodes=128))
    async with app.run_test(size=(120, 40)):
        await until(app, "step 8/8")
        await drawn(app)
        for part in (
            "reward",
            "eval reward",
            "entropy",
            "clip fraction",
            "SUCCEEDED",
            "trainer idle",
            "/ 7 steps",
            "Job completed",
        ):
            await until(app, part)


async def test_a_run_without_a_step_says_what_it_waits_for(folder):
    path = folder / "young-rl_0000000000000001"
    path.mkdir()
    app = build(folder, run_dir=path)
    async with app.run_test(size=(100, 30)):
        await until(app, "Waiting for the first step: starting")


async def test_until_a_status_has_come_it_is_reading_and_not_starting(folder, monkeypatch):
    run, may = run_in(folder, "alpha"), Event()
    status = LocalRunSource.status
    monkeypatch.setattr(LocalRunSource, "status", lambda source: may.wait(30) and status(source))
    app = build(folder, run_dir=run)
    async with app.run_test(size=(100, 30)):
        try:
            text = await until(app, lambda: app.opened.model and "\n reading the run" in screen_text(app))
            assert "starting" not in text
        finally:
            may.set()
        await until(app, "step 4/4")


async def test_narrow_terminals_show_one_pane_and_tab_brings_the_next(folder):
    app = build(folder, run_dir=run_in(folder, "alpha"))
    async with app.run_test(size=(80, 24)) as pilot:
        await until(app, "step 4/4")
        await until(app, lambda: "╭─ reward" in screen_text(app) and "╭─ eval reward" not in screen_text(app))
        await pilot.press("tab")
        await until(app, lambda: "╭─ eval reward" in screen_text(app) and "╭─ reward" not in screen_text(app))
        await pilot.press("shift+tab", "shift+tab")
        await until(app, "╭─ Last events")


async def test_the_least_terminal_says_why_a_run_failed_and_what_to_do(folder):
    app = build(folder, run_dir=run_in(folder, "alpha", "crashed", episodes=320))
    async with app.run_test(size=(80, 24)):
        await until(app, "pane 1 of 7", "cause ", "ended without a word", "to do ", "rltui train ", "health ", "D35")


async def test_the_least_terminal_says_what_a_run_does(folder):
    app = build(folder, run_dir=run_in(folder, "alpha", "running"))
    async with app.run_test(size=(80, 24)) as pilot:
        await until(app, "pane 1 of 7", "episodes running")
        await pilot.resize_terminal(120, 30)
        await until(app, lambda: screen_text(app).count("episodes running") == 1)


async def test_tabs_by_letter_and_bracket(folder):
    run = run_in(folder, "alpha")
    (run / "logs").mkdir(exist_ok=True)
    (run / "logs" / "learner-0.log").write_text("\x1b[31mforward\x1b[0m done\nlast words\n")
    app = build(folder, run_dir=run)
    async with app.run_test(size=(120, 30)) as pilot:
        await until(app, "step 4/4")
        await pilot.press("J")
        await until(app, "No episode of this run was judged")
        await pilot.press("L")
        await until(app, "forward done")
        await pilot.press("]", "]")
        await until(app, "[M Metrics]")
        await pilot.press("]")
        await until(app, "Episodes")
        await pilot.press("escape")
        await until(app, "by newest")


async def test_a_hidden_tab_is_told_when_it_shows_again(folder):
    app = build(folder, run_dir=run_in(folder, "alpha"))
    async with app.run_test(size=(120, 30)) as pilot:
        await until(app, "Job completed")
        await pilot.press("R")
        await until(app, "Episodes")
        await at_rest(app, pilot)
        screen = app.screen
        overview, told = screen.query_one(Overview), []
        overview.update = lambda model, what: told.append(what)  # type: ignore[method-assign]
        overview.pending = frozenset({"events"})
        screen._bring_up_to_date()
        assert not told
        await pilot.press("O")
        await until(app, lambda: told)
        assert told == [frozenset({"events"})] and not overview.pending


async def test_episodes_filter_read_and_back(folder):
    app = build(folder, run_dir=run_in(folder, "alpha", episodes=128))
    async with app.run_test(size=(120, 30)) as pilot:
        await until(app, "step 8/8")
        await pilot.press("R")
        await until(app, "144 episodes")
        await until(app, "Question")
        await pilot.press("/", *"iteration = 3")
        await until(app, "32 of 144")
        await pilot.press(*" >")
        await until(app, "column 15")
        assert "32 of 144" in screen_text(app)  # the last good one
        await pilot.press("enter")
        await pilot.press("enter")
        await until(app, lambda: isinstance(app.focused, Transcript))
        await pilot.press("right")
        await pilot.press("escape")
        await until(app, lambda: isinstance(app.focused, VirtualList))
        await pilot.press("escape")
        await until(app, "144 episodes")


async def test_keys_that_arrive_together_go_where_they_are_meant(folder):
    """As after a pause of the line: the next key is there before the screen has answered the first."""
    app = build(folder, run_dir=run_in(folder, "alpha", episodes=128))
    async with app.run_test(size=(120, 30)):
        await until(app, "step 8/8")
        await until(app, lambda: app.focused is not None)
        type_at_once(app, "R", "slash", "i", "t", "e", "r", "a", "t", "i", "o", "n", "equals_sign", "3")
        await until(app, "32 of 144")
        type_at_once(app, "escape", "L", *["right_square_bracket"] * 3, "S", "j", "j", "escape", "slash")
        await until(app, lambda: isinstance(app.focused, Input) and app.screen.query_one("#tab-rollouts").display)
        assert len(app.screen_stack) == 1


async def test_a_chart_leads_to_the_episodes_of_its_step(folder):
    app = build(folder, run_dir=run_in(folder, "alpha", episodes=128))
    async with app.run_test(size=(120, 40)) as pilot:
        await until(app, "step 8/8")
        await drawn(app)
        await pilot.press("enter")
        await until(app, "Episodes iteration = 4")
        await until(app, "40 of 144")


async def test_the_place_in_a_run_is_remembered(folder):
    run = run_in(folder, "alpha", episodes=128)
    app = build(folder, run_dir=run)
    async with app.run_test(size=(120, 30)) as pilot:
        await until(app, "step 8/8")
        await pilot.press("R", "/", *"seed = 5", "enter", "o", "j", "enter")
        await until(app, "reward, best first")
        await pilot.press("q")
        await until(app, lambda: app._exit)
    app = build(folder)
    async with app.run_test(size=(120, 30)) as pilot:
        await until(app, "1 run")
        await pilot.press("4")  # the run that was open last
        await until(app, "8 of 144")
        await until(app, "reward, best first")


async def test_a_tab_that_is_asked_for_while_the_run_is_read_wins_over_the_remembered_one(folder):
    run = run_in(folder, "alpha")
    app = build(folder, run_dir=run)
    async with app.run_test(size=(120, 30)) as pilot:
        await until(app, "step 4/4")
        await pilot.press("R", "q")
        await until(app, lambda: app._exit)
    app = build(folder, run_dir=run)
    async with app.run_test(size=(120, 30)):
        type_at_once(app, "L")
        await until(app, "[L Logs]")
        await until(app, lambda: isinstance(app.focused, LogView))


async def test_a_request_is_written_and_shown_as_asked(folder):
    run = run_in(folder, "live", kind="running")
    app = build(folder, run_dir=run)
    async with app.run_test(size=(120, 30)) as pilot:
        await until(app, "RUNNING")
        await pilot.press("S")
        await until(app, "Steer live")
        await pilot.press("enter")
        await until(app, "pause asked")
        requests = [json.loads(path.read_text()) for path in (run / "control").glob("*.json")]
        assert [request["action"] for request in requests] == ["pause"]
        assert any("pause" in did.command for did in app.commands.rows())


async def test_set_asks_for_a_key_and_sends_its_value(folder):
    run = run_in(folder, "live", kind="running")
    app = build(folder, run_dir=run)
    async with app.run_test(size=(100, 30)) as pilot:
        await until(app, "RUNNING")
        await pilot.press("S", *"jjjjjj", "enter")
        await until(app, "Set a key of live", "live: ", "training.max_lag")
        await pilot.press(*"group_size 4", "enter")
        await until(app, "cannot be changed while a run is going")
        assert not list((run / "control").glob("*.json"))
        await pilot.press("ctrl+u", *"set learning_rate=1e-5 max_lag = 3", "enter")
        await until(app, "set asked")
        (request,) = [json.loads(path.read_text()) for path in (run / "control").glob("*.json")]
        assert request["action"] == "set"
        assert request["args"] == {"training.learning_rate": 1e-5, "training.max_lag": 3}
        await pilot.press("S", *"jjjjjj", "enter")
        await until(app, "Set a key of live", "live: ")
        await pilot.press(*"clip_eps_h")
        await until(app, "set clip_eps_high")
        await pilot.press("right")
        assert app.screen.query_one(Input).value == "clip_eps_high"
        await pilot.press("escape")
        await until(app, lambda: "Set a key" not in screen_text(app))
        assert len(list((run / "control").glob("*.json"))) == 1


async def test_set_tells_the_values_in_force(folder):
    run = configured(folder, "live", 1, "training.learning_rate=2e-4", kind="running")
    app = build(folder, run_dir=run)
    async with app.run_test(size=(100, 30)) as pilot:
        await until(app, "RUNNING", lambda: app.opened.checkup and app.opened.checkup.findings)
        await pilot.press("S", *"jjjjjj", "enter")
        await until(app, "training.learning_rate = 0.0002", "training.max_lag = ")


async def test_kill_asks_first(folder):
    run = run_in(folder, "live", kind="running")
    app = build(folder, run_dir=run)
    async with app.run_test(size=(120, 30)) as pilot:
        await until(app, "RUNNING")
        await pilot.press("S", *"jjj", "enter")
        await until(app, "kill it")
        await pilot.press("enter", "escape")
        await until(app, lambda: "kill it" not in screen_text(app))
        assert not list((run / "control").glob("*.json"))


async def test_leaving_with_a_kill_asks_what_is_lost(folder):
    run = run_in(folder, "live", kind="running")
    app = build(folder, run_dir=run)
    async with app.run_test(size=(120, 30)) as pilot:
        await until(app, "RUNNING")
        await pilot.press("q", "j", "j", "enter")
        await until(app, "kill it: ")
        await pilot.press("escape")
        await until(app, lambda: "kill it" not in screen_text(app))
        assert not app._exit
        await pilot.press("q", "j", "j", "enter", "k")
        await until(app, lambda: app._exit)
    assert app.leaving == "kill"


@pytest.mark.parametrize("readonly", [False, True])
async def test_an_episode_is_written_to_a_file_unless_readonly(folder, tmp_path, readonly):
    app = build(folder, run_dir=run_in(folder, "alpha"), readonly=readonly)
    async with app.run_test(size=(160, 30)) as pilot:
        await until(app, "step 4/4")
        await pilot.press("R")
        await until(app, "Question")
        await pilot.press("enter")
        await until(app, lambda: isinstance(app.focused, Transcript))
        await until(app, lambda: ("w write" in screen_text(app)) is not readonly)
        await pilot.press("w")
        if not readonly:
            await until(app, "written to")
    files = list((tmp_path / "state").rglob("alpha*-episode-*"))
    assert [json.loads(path.read_text())["split"] for path in files] == ([] if readonly else ["eval"])


async def test_readonly_asks_nothing_of_a_run(folder):
    run = run_in(folder, "live", kind="running")
    app = build(folder, run_dir=run, readonly=True)
    async with app.run_test(size=(120, 30)) as pilot:
        await until(app, "RUNNING")
        await pilot.press("S", "enter")
        await pilot.pause()
        assert not list((run / "control").glob("*.json"))
        await pilot.press("escape", "q")
        await until(app, lambda: app._exit)  # no question either


async def test_q_asks_while_a_run_lives_and_detaches_by_default(folder):
    run = run_in(folder, "live", kind="running")
    app = build(folder, run_dir=run)
    async with app.run_test(size=(120, 30)) as pilot:
        await until(app, "RUNNING")
        await pilot.press("q")
        await until(app, "goes on without the interface")
        await pilot.press("escape")
        await until(app, lambda: "goes on without" not in screen_text(app))
        await pilot.press("q", "enter")
        await until(app, lambda: app._exit)
    assert app.leaving == "detach"
    assert not list((run / "control").glob("*.json"))


async def test_q_does_not_ask_when_the_run_has_ended(folder):
    app = build(folder, run_dir=run_in(folder, "alpha"))
    async with app.run_test(size=(120, 30)) as pilot:
        await until(app, "SUCCEEDED")
        await pilot.press("q")
        await until(app, lambda: app._exit)


async def test_a_tab_that_is_shown_while_it_is_made_has_its_content(folder):
    app = build(folder, run_dir=run_in(folder, "alpha"))
    async with app.run_test(size=(120, 30)):
        await until(app, "Job completed")
        screen = app.screen
        screen._make_next()
        await screen.show_tab("rollouts")
        await until(app, "Question")


async def test_a_tab_may_be_asked_for_before_the_screen_stands(folder):
    app = build(folder, run_dir=run_in(folder, "alpha"))
    async with app.run_test(size=(120, 40)):
        await until(app, "step 4/4")
        young = MonitorScreen(app.opened)
        assert await young.show_tab("logs") is None  # as a key does that comes while screens change
        app.push_screen(young)
        await until(app, lambda: young._tab is not None and young._tab.tab == "logs")
