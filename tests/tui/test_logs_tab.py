"""The Logs tab of a run: what comes while another tab shows, and its end."""

import json

from rltui.screens.monitor.logs import Logs
from tests.tui.app_driver import build, run_in, until


def add(run, *lines):
    with (run / "logs" / "coordinator.log").open("a") as log:
        log.writelines(f"{line}\n" for line in lines)


def end(run):
    path = run / "status.json"
    status = json.loads(path.read_text())
    status.update(state="failed", finished_at=status["updated_at"])
    path.write_text(json.dumps(status))


async def test_a_log_is_read_to_its_end_while_another_tab_shows(tmp_path):
    run = run_in(tmp_path, "alpha", "running")
    app = build(tmp_path, run_dir=run)
    async with app.run_test(size=(120, 30)) as pilot:
        await until(app, "step 4/4")
        await pilot.press("L")
        await until(app, "following")
        await pilot.press("O")
        await until(app, "[O Overview]")
        add(run, "one more", "and another")
        await until(app, "L Logs 2")
        add(run, "this is why it failed")
        end(run)
        tab = app.screen.query_one(Logs)
        await until(app, "ended", "L Logs 3", lambda: not tab._due)  # and is quiet from now on
        await pilot.resize_terminal(80, 24)
        await until(app, "L Logs+")
        await pilot.press("L")
        await until(app, "one more", "this is why it failed", "[L Logs]", "following")
        await pilot.press("O")
        await until(app, " L Logs ")


async def test_lines_behind_the_end_are_read_when_the_tab_shows_again(tmp_path):
    run = run_in(tmp_path, "alpha")
    app = build(tmp_path, run_dir=run)
    async with app.run_test(size=(120, 30)) as pilot:
        await until(app, "step 4/4")
        await pilot.press("L")
        tab = app.screen.query_one(Logs)
        await until(app, "following", lambda: not tab._due)
        await pilot.press("O")
        await until(app, "[O Overview]")
        add(run, "late words")
        await pilot.press("L")
        await until(app, "late words")
