"""The frame: screens by key, too small a terminal, faults, what is imported before the first paint."""

from __future__ import annotations

import json
import subprocess
import sys
from collections import Counter
from typing import Any

import pytest
from textual.css.query import NoMatches
from textual.css.stylesheet import Stylesheet
from textual.dom import DOMNode
from textual.geometry import Region
from textual.widgets import Static

from rltui.screens.runs_detail import RunDetail
from tests.cli.conftest import ROOT, environment
from tests.tui.app_driver import build, run_in, screen_text, type_at_once, until


def test_nothing_heavy_is_imported_before_the_first_paint():
    code = (
        "import sys, json, rltui.cli.app, rltui.app, rltui.screens.runs, rltui.look, rltui.terminal.modes;"
        "print(json.dumps(list(sys.modules)))"
    )
    done = subprocess.run([sys.executable, "-c", code], env=environment(), cwd=ROOT, capture_output=True, check=True)
    modules = set(json.loads(done.stdout))
    heavy = {"numpy", "pydantic", "msgspec", "httpx", "tomlkit", "psutil", "torch", "tree_sitter", "trainer"}
    assert heavy & {name.split(".")[0] for name in modules} == set()
    assert {"rltui.screens.dialog", "textual.widgets._text_area"} & modules == set()  # no question is asked yet


async def test_the_first_screen_is_the_only_one_and_is_styled_for_what_it_shows(folder, monkeypatch):
    """Each screen below it, and each class it is given once it has widgets, styles all of them anew: 10 to 20 ms."""
    styled: Counter[str] = Counter()
    apply = Stylesheet.apply

    def counted(sheet: Stylesheet, node: DOMNode, **more: Any) -> None:
        styled[type(node).__name__] += 1
        apply(sheet, node, **more)

    monkeypatch.setattr(Stylesheet, "apply", counted)
    app = build(folder)
    async with app.run_test(size=(100, 30)) as pilot:
        await until(app, "No runs under")
        assert app.screen_stack == [app.get_screen("runs")]
        assert styled["RunDetail"] <= 2  # when it is mounted, when its screen shows
        await pilot.press("q")


async def test_each_number_is_a_screen(folder):
    app = build(folder)
    async with app.run_test(size=(100, 30)) as pilot:
        await until(app, "No runs under")
        for key, verb in (
            ("2", "single_gpu_lora"),
            ("3", "No config is chosen"),
            ("5", "No task_url"),
            ("6", "Mark two runs with space"),
        ):
            await pilot.press(key)
            await until(app, verb)
        await pilot.press("4")
        await until(app, "no run is open")
        await pilot.press("1")
        await until(app, "No runs under")


async def test_a_terminal_that_is_too_small_says_the_size_and_q_works(folder):
    run_in(folder, "alpha")
    app = build(folder)
    async with app.run_test(size=(59, 24)) as pilot:
        text = await until(app, "60x18 needed, here 59x24")
        assert "Runs" not in text
        await pilot.resize_terminal(60, 18)
        await until(app, "alpha")
        await pilot.resize_terminal(80, 17)
        await until(app, "60x18 needed")
        await pilot.press("q")
    assert app.return_code == 0


async def test_zoom_gives_a_pane_the_screen_and_back(folder):
    run_in(folder, "alpha")
    app = build(folder)
    async with app.run_test(size=(100, 30)) as pilot:
        await until(app, lambda: "╭─ Run ─" in screen_text(app))
        await pilot.press("z")
        await until(app, lambda: "╭─ Run ─" not in screen_text(app))
        await until(app, lambda: "alpha" in screen_text(app) and "help" in screen_text(app))
        await pilot.press("0")
        await until(app, lambda: "╭─ Run ─" in screen_text(app))


async def test_a_fault_ends_the_app_without_a_traceback_and_is_kept_for_the_report(folder, monkeypatch, capsys):
    run_in(folder, "alpha")
    app = build(folder)
    monkeypatch.setattr("rltui.screens.runs.RunsScreen.action_sort", lambda self: 1 / 0)
    with pytest.raises(ZeroDivisionError):  # the pilot raises it again
        async with app.run_test(size=(80, 24)) as pilot:
            await until(app, "1 run")
            await pilot.press("o")
    assert isinstance(app.failure, ZeroDivisionError)
    assert "Traceback" not in capsys.readouterr().err
    assert any("key" in entry and entry.endswith("o") for entry in app.recorder.lines())


async def test_a_signal_detaches(folder):
    app = build(folder)
    async with app.run_test(size=(80, 24)):
        await until(app, "No runs under")
        app.hang_up(15)
        await until(app, lambda: not app.is_running or app._exit)
    assert app.leaving == "detach"


async def test_another_theme_is_worn_at_once_and_remembered(folder):
    app = build(folder)
    async with app.run_test(size=(80, 24)):
        await until(app, "No runs under")
        before = app.screen.styles.background
        app.show_theme("light")
        await until(app, lambda: app.screen.styles.background != before)
        assert app.look.theme.name == "light"
        app.show_theme("no such theme")
        await until(app, "there is no theme")
        assert app.look.theme.name == "light"
        app.exit()
    assert build(folder).memory.get("theme") == "light"


async def test_the_palette_finds_runs_and_does_what_is_chosen(folder):
    run_in(folder, "alpha")
    app = build(folder)
    async with app.run_test(size=(100, 30)) as pilot:
        await until(app, "1 run")
        await pilot.press(":", *"alpha")
        await until(app, "run        alpha-rl_")
        await pilot.press("enter")
        await until(app, "step 4/4")


async def test_ascii_draws_nothing_else(folder):
    run_in(folder, "alpha")
    app = build(folder, ascii=True)
    async with app.run_test(size=(100, 30)) as pilot:
        assert (await until(app, "alpha")).isascii()
        await pilot.press("enter")
        assert (await until(app, "step 4/4")).isascii()
        for key in ("R", "L", "S", "escape", "question_mark"):
            await pilot.press(key)
            await pilot.pause()
            assert screen_text(app).isascii(), key


async def test_a_letter_leads_to_a_pane(folder):
    app = build(folder, run_dir=run_in(folder, "alpha"))
    async with app.run_test(size=(120, 30)) as pilot:
        await until(app, "Job completed")
        await until(app, lambda: app.focused is not None)
        await pilot.press(";")
        await until(app, lambda: "╭─ g " in screen_text(app))
        await pilot.press("g")
        await until(app, lambda: app.focused is not None and app.focused.id == "events")
        await pilot.press(";", "escape")
        await pilot.pause()
        assert app.focused.id == "events"


async def test_a_keymap_with_mistakes_is_said_and_the_rest_of_it_works(folder, tmp_path):
    config = tmp_path / "config" / "rltui"
    config.mkdir(parents=True)
    (config / "keys.toml").write_text('"app.quitt" = "x"\n"runs.sort" = "s"\n')
    run_in(folder, "alpha")
    app = build(folder)
    async with app.run_test(size=(140, 24)) as pilot:
        await until(app, "app.quitt")
        await pilot.press("s")
        await until(app, "by name")


async def test_a_widget_that_is_looked_for_before_it_is_laid_out_is_still_told_that_it_shows(folder):
    app = build(folder, run_dir=run_in(folder, "alpha"))
    async with app.run_test(size=(120, 30)):
        await until(app, "Job completed")
        told: list[str] = []

        class Late(Static):
            def on_resize(self) -> None:
                told.append("resize")

            def on_show(self) -> None:
                told.append("show")

        late = Late("here")
        late.display = False
        await app.screen.mount(late)
        late.display = True
        app.screen._compositor._full_map_invalidated = True  # as by a repaint of something that is hidden
        assert app.screen.find_widget(late).region.size
        await until(app, lambda: set(told) == {"resize", "show"})


async def test_a_theme_is_worn_again_when_its_file_is_saved_and_a_bad_one_is_named(folder, tmp_path):
    app = build(folder)
    mine = tmp_path / "config" / "rltui" / "themes" / "mine.toml"
    mine.parent.mkdir(parents=True)
    text = app.themes.list()["dark"].read_text().replace('name = "dark"', 'name = "mine"')
    mine.write_text(text)
    async with app.run_test(size=(120, 24)):
        await until(app, "No runs under")
        app.show_theme("mine")
        before = app.look
        accent = before.theme.rgb.colors["accent"]
        mine.write_text(text.replace(f'accent = "{accent}"', 'accent = "#123456"', 1))
        await until(app, lambda: app.look is not before)
        assert app.look.theme.rgb.colors["accent"] == "#123456"
        worn = app.look
        mine.write_text(text.replace(f'accent = "{accent}"', 'accent = "blue?"', 1))
        line = next(i for i, row in enumerate(text.splitlines(), 1) if row.startswith("accent ="))
        await until(app, f"mine.toml:{line}: ")
        assert "accent" in screen_text(app) and app.look is worn


async def test_an_update_sends_the_cells_that_changed_and_no_other(folder):
    app = build(folder)
    async with app.run_test(size=(100, 24)) as pilot:
        await until(app, "No runs under")
        await pilot.pause()
        app.screen.mount(middle := Static("x" * 80))
        await until(app, "x" * 80)
        await pilot.pause()
        compositor = app.screen._compositor
        compositor._dirty_regions.clear()
        x, y = middle.region.offset
        compositor._dirty_regions.add(Region(x + 30, y, 3, 1))
        update = compositor.render_partial_update()
        assert update is not None
        sent = update.render_segments(app.console)
        assert sent.startswith(f"\x1b[{y + 1};{x + 31}H") and sent.count("x") == 3


@pytest.mark.parametrize("later", ["2", "3", "exclamation_mark"])
async def test_a_key_behind_q_is_for_nobody(folder, later):
    """Both were typed before the first one was looked at."""
    app = build(folder)
    async with app.run_test(size=(100, 30)):
        await until(app, "No runs under")
        type_at_once(app, "q", later)
    assert app.failure is None and app._exception is None


async def test_what_was_still_to_be_shown_when_the_parts_are_gone_is_no_fault(folder):
    """Screens are taken down part by part, and a timer may have fired just before."""
    run_in(folder, "alpha")
    app = build(folder)
    async with app.run_test(size=(120, 30)) as pilot:
        await until(app, "1 run")
        screen = app.screen
        await screen.query_one(RunDetail).remove()
        app.exit()
        screen.call_next(screen._show_detail)
        await pilot.pause()
    assert app.failure is None and app._exception is None


async def test_a_part_that_is_missing_while_the_interface_stands_is_a_fault(folder):
    app = build(folder)
    with pytest.raises(NoMatches):
        async with app.run_test(size=(120, 30)) as pilot:
            await until(app, "No runs under")
            await app.screen.query_one(RunDetail).remove()
            app.screen.call_next(app.screen._show_detail)
            await pilot.pause()
    assert isinstance(app.failure, NoMatches)


async def test_q_leaves_at_once_where_the_run_could_never_be_read(folder):
    run = run_in(folder, "dent")
    (run / "status.json").write_text("{torn")
    app = build(folder, run_dir=run)
    async with app.run_test(size=(100, 30)) as pilot:
        await until(app, "stale")
        await pilot.press("q")
        await until(app, lambda: app._exit)
    assert app.leaving == "detach"
