"""Screen 1: the runs of a folder."""

from __future__ import annotations

import json
import os
import threading
from pathlib import Path

from rltui.screens.runs import RunsScreen
from rltui.screens.runs_ages import RunList
from rltui.sources.folder import RunsFolder
from tests.tui.app_driver import build, run_in, screen_text, until
from trainer.rundir.jsonl import from_iso


def under_cursor(app) -> str:
    screen = app.get_screen("runs")
    assert isinstance(screen, RunsScreen) and screen.where is not None
    return Path(screen.where).name


async def test_runs_are_listed_and_one_that_cannot_be_read_says_why(folder):
    run_in(folder, "good")
    bad = run_in(folder, "bad", number=2)
    (bad / "status.json").write_text("{no")
    app = build(folder)
    async with app.run_test(size=(120, 30)):
        await until(app, "2 runs")
        for part in ("status.json is damaged", "succeeded", "4/4"):
            await until(app, part)


async def test_an_empty_folder_says_what_to_do(folder):
    app = build(folder)
    async with app.run_test(size=(200, 24)):
        await until(app, f"No runs under {folder}.", "a: open a run or another folder, +: a new config")


async def test_where_no_run_is_listed_the_way_back_to_the_open_one_is_told(folder, tmp_path):
    app = build(folder, run_dir=run_in(tmp_path / "elsewhere", "alpha"))
    async with app.run_test(size=(120, 30)) as pilot:
        await until(app, "step 4/4")
        await pilot.press("1")
        await until(app, "No runs under", "4: back to alpha")
        await pilot.press("4")
        await until(app, "step 4/4")


async def test_a_folder_that_cannot_be_read_is_a_line_and_the_app_lives(folder):
    (folder / "loop").symlink_to("loop")
    app = build(folder / "loop")
    async with app.run_test(size=(80, 24)) as pilot:
        await until(app, "cannot be read")
        await pilot.press("7")
        await until(app, "No run is open")


async def test_the_reading_of_a_slow_folder_of_10_000_runs_is_ended_by_a_key_and_goes_on(folder, monkeypatch):
    for number in range(10_000):
        (folder / f"old-rl_{number:016x}").mkdir(parents=True)
    disk, read = threading.Semaphore(40), RunsFolder._row

    def slow(self, name):
        if name not in self._known:
            disk.acquire()
        return read(self, name)

    monkeypatch.setattr(RunsFolder, "_row", slow)
    monkeypatch.setattr("rltui.watch.TELL_S", -1.0)
    app = build(folder)
    async with app.run_test(size=(100, 30)) as pilot:
        await until(app, "scanned 40 of 10000", "C end/go on")
        await pilot.press("C")
        await until(app, lambda: app._folder._folder._end)
        disk.release(1)  # the one that is being read comes still
        await until(app, "read 41 of 10000")
        await pilot.press("G", "enter")  # and what was read can be opened
        await until(app, "Waiting for the first step")
        await pilot.press("1", "C")
        await until(app, "scanned 41 of 10000")
        disk.release(100)
        await until(app, "scanned 141 of 10000")
    disk.release()  # its thread ends


async def test_the_filter_says_what_it_keeps_and_escape_takes_it_away(folder):
    for number, name in enumerate(("alpha", "beta", "gamma"), 1):
        run_in(folder, name, number=number)
    app = build(folder)
    async with app.run_test(size=(80, 24)) as pilot:
        await until(app, "3 runs")
        await pilot.press("/", "b", "e", "t")
        await until(app, "showing 1 of 3")
        await until(app, lambda: "beta-rl" in screen_text(app) and "alpha-rl" not in screen_text(app))
        await pilot.press("enter")
        await until(app, "showing 1 of 3")
        await pilot.press("escape")
        await until(app, "3 runs")
        await pilot.press("/", "n", "o", "n", "e")
        await until(app, "No run matches")


async def test_the_cursor_stays_on_its_run_through_sorts_and_new_runs(folder):
    for number, name in enumerate(("alpha", "beta", "gamma"), 1):
        run_in(folder, name, number=number)
    app = build(folder)
    async with app.run_test(size=(80, 24)) as pilot:
        await until(app, "3 runs")
        await pilot.press("j")
        chosen = under_cursor(app)
        await pilot.press("o", "o")
        assert under_cursor(app) == chosen
        run_in(folder, "aaaa", number=9)
        app._folder.soon()
        await until(app, "4 runs")
        assert under_cursor(app) == chosen


async def test_ages_go_on_where_nothing_else_changes(folder, monkeypatch):
    row_at = json.loads((run_in(folder, "alpha") / "status.json").read_bytes())["updated_at"]
    app = build(folder)
    async with app.run_test(size=(120, 30)):
        await until(app, "1 run")
        monkeypatch.setattr("rltui.screens.runs_ages.time.time", lambda: from_iso(row_at) + 7 * 3600 + 60)
        app.screen.query_one(RunList).grow_old()
        await until(app, " 7 h ")


async def test_marks_are_kept_by_run(folder):
    for number, name in enumerate(("alpha", "beta"), 1):
        run_in(folder, name, number=number)
    app = build(folder)
    async with app.run_test(size=(80, 24)) as pilot:
        await until(app, "2 runs")
        screen = app.get_screen("runs")
        first = under_cursor(app)
        await pilot.press("space")
        assert {path.rsplit("/", 1)[1] for path in screen.rows.marks} == {first}
        await pilot.press("k", "space")
        assert not screen.rows.marks


async def test_only_runs_that_changed_are_drawn_again(folder):
    run_in(folder, "alpha", number=1)
    run_in(folder, "live", kind="running", number=2)
    app = build(folder)
    async with app.run_test(size=(120, 30)):
        await until(app, "1 live")
        screen = app.get_screen("runs")
        row = next(row for row in screen.rows.all() if row.state == "running")
        same = screen.rows.update([row])
        assert same is not None and [screen.rows.row(i).path for i in same] == [row.path]
        assert screen.rows.update([]) == []


async def test_attach_wants_a_folder_and_opens_a_run(folder, tmp_path):
    run_in(folder, "alpha")
    other = run_in(tmp_path / "elsewhere", "far", number=7)
    app = build(folder)
    async with app.run_test(size=(100, 30)) as pilot:
        await until(app, "1 run")
        await pilot.press("a", *"/no/such", "enter")
        await until(app, "no folder /no/such")
        prompt = app.screen.query_one("#attach")
        prompt.value = str(other)
        await pilot.press("enter")
        await until(app, "step 4/4")
        assert app.opened is not None and app.opened.folder == other


async def test_hostile_names_and_labels_are_only_text(folder):
    path = folder / "\x1b[31mred\x1b]52;c;eA==\x07[bold]x"
    run_in(folder, "ok")
    os.rename(next(folder.iterdir()), path)
    app = build(folder)
    async with app.run_test(size=(120, 30)):
        assert "\x1b" not in await until(app, "red[bold]x")


async def test_while_a_filter_is_typed_only_keys_that_are_no_text_are_offered(folder):
    run_in(folder, "alpha")
    app = build(folder)
    async with app.run_test(size=(120, 30)) as pilot:
        await until(app, "1 run")
        await pilot.press("/")
        await until(app, "enter apply  esc cancel")
        keys = screen_text(app).splitlines()[-1]
        assert "/ filter" not in keys and "q quit" not in keys
        await pilot.press("q", "/", "enter")
        await until(app, "No run matches q/")


async def test_the_strip_follows_when_the_cursor_rests(folder):
    for number, name in enumerate(("alpha", "beta"), 1):
        run_in(folder, name, number=number)
    app = build(folder)
    async with app.run_test(size=(120, 40)) as pilot:
        await until(app, "name    ")
        first = under_cursor(app)
        await until(app, f"name    {first}")
        await pilot.press("j")
        second = under_cursor(app)
        assert second != first
        await until(app, f"name    {second}")


async def test_the_strip_comes_and_goes_with_the_height(folder):
    run_in(folder, "alpha")
    app = build(folder)
    async with app.run_test(size=(80, 24)) as pilot:
        await until(app, "1 run")
        assert "name    alpha" not in screen_text(app)
        await pilot.resize_terminal(120, 40)
        await until(app, "name    alpha")
        await pilot.resize_terminal(80, 24)
        await until(app, lambda: "name    alpha" not in screen_text(app))


async def test_a_filter_that_matches_nothing_says_what_to_do(folder):
    run_in(folder, "alpha")
    app = build(folder)
    async with app.run_test(size=(80, 24)) as pilot:
        await until(app, "1 run")
        await pilot.press("/", *"rew", "enter")
        await until(app, "No run matches rew")
        assert "/ changes the filter, esc clears it" in screen_text(app)
        await pilot.press("escape")
        await until(app, "alpha")


async def test_of_a_run_that_has_ended_steering_says_so_and_stays(folder):
    run_in(folder, "alpha")
    app = build(folder)
    async with app.run_test(size=(160, 30)) as pilot:
        await until(app, "alpha")
        await pilot.press("S")
        await until(app, "the run has ended: succeeded", "[1 Runs]")


async def test_what_still_comes_of_a_folder_that_was_left_is_not_listed(folder, tmp_path):
    run_in(folder, "near")
    run_in(tmp_path / "other", "far", number=2)
    app = build(folder)
    async with app.run_test(size=(100, 30)) as pilot:
        await until(app, "near-rl")
        left, (row,) = app._folder, app.get_screen("runs").rows.all()
        app.watch_folder(tmp_path / "other")
        await until(app, "far-rl", "1 run")
        left._found([row], [], 1, 9)  # as it does that was in the middle of a look
        left._failed("it cannot be read")
        await pilot.pause()
        text = await until(app, "far-rl", "1 run")
        assert "near" not in text and "cannot be read" not in text
