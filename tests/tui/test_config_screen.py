"""Screen 2: the config editor, as a person uses it."""

from __future__ import annotations

import threading
from pathlib import Path

import pytest
from textual.widgets import Input

from rltui.model import drafts
from rltui.screens.config.screen import ConfigScreen
from rltui.screens.runs import RunsScreen
from tests.tui.app_driver import build, run_in, screen_text, type_at_once, until
from tests.tui.config_driver import SEED, WRONG, editing, go_to, key, screen, text

SIZE = (120, 36)
pytestmark = pytest.mark.usefixtures("here")


async def test_edit_undo_and_save_keep_every_other_byte(folder):
    app = editing(folder, SEED)
    async with app.run_test(size=SIZE) as pilot:
        await until(app, "no problems")
        await go_to(app, "training.learning_rate")
        await pilot.press("enter", *["backspace"] * 4, *"1e-4", "enter")
        await until(app, "was 5e-5")
        assert "1e-4" in text(app) and Path("my.toml").read_text() == SEED
        await pilot.press("u")
        await until(app, "taken back")
        assert text(app) == SEED
        await pilot.press("U", "s")
        await until(app, "enter writes it")
        await until(app, "+learning_rate = 1e-4")
        await pilot.press("enter")
        await until(app, "saved my.toml")
        lines = set(SEED.split("\n"))
        new = [line for line in Path("my.toml").read_text().split("\n") if line not in lines]
        assert [line.split("#")[0].split() for line in new] == [["learning_rate", "=", "1e-4"]]


async def test_errors_are_said_while_typing_and_escape_restores(folder):
    app = editing(folder, SEED)
    async with app.run_test(size=SIZE) as pilot:
        await until(app, "no problems")
        await go_to(app, "training.group_size")
        await pilot.press("enter", "backspace", "5")
        await until(app, "episodes per iteration")
        await pilot.press("backspace", *"two")
        await until(app, "a string was given")
        await pilot.press("escape")
        await until(app, lambda: not screen(app).editor.is_open)
        assert text(app) == SEED and app.focused.id == "fields"


async def test_tab_takes_the_value_and_goes_on(folder):
    app = editing(folder, SEED)
    async with app.run_test(size=SIZE) as pilot:
        await until(app, "no problems")
        await go_to(app, "training.num_epochs")
        await pilot.press("enter", "backspace", "2", "tab")
        await until(app, lambda: key(app) == "training.iterations_per_epoch" and screen(app).editor.is_open)
        await pilot.press("0", "tab", "escape")
        assert "num_epochs = 2 " in text(app) and "iterations_per_epoch = 200 " in text(app)


async def test_what_is_no_toml_stays_in_the_line(folder):
    app = editing(folder, SEED)
    async with app.run_test(size=SIZE) as pilot:
        await until(app, "no problems")
        await go_to(app, "training.max_minutes")
        await pilot.press("enter", *'"half', "enter")
        await until(app, "not a TOML value")
        assert screen(app).editor.is_open and text(app) == SEED


async def test_the_walk_goes_to_what_is_wrong_and_x_mends_it(folder):
    app = editing(folder, WRONG)
    async with app.run_test(size=SIZE) as pilot:
        await until(app, "2 problems in 1 section")
        await pilot.press("!")
        await until(app, lambda: key(app) == "training.group_size")
        await until(app, "episodes_per_batch 32 x")
        await pilot.press("x")
        await until(app, "1 problem in 1 section")
        await pilot.press("!")
        assert key(app) == "training.log_intervall"
        await pilot.press("x")
        await until(app, "no problems")
        assert "log_interval = 5" in text(app) and "group_size = 4" in text(app)


async def test_flags_toggle_and_choices_are_a_list(folder):
    app = editing(folder, SEED)
    async with app.run_test(size=SIZE) as pilot:
        await until(app, "no problems")
        await go_to(app, "training.mask_truncated")
        await pilot.press("enter")
        assert "mask_truncated = true" in text(app)
        await go_to(app, "training.lr_schedule")
        await pilot.press("enter")
        await until(app, "cosine")
        await pilot.press("j", "enter")
        assert 'lr_schedule = "linear"' in text(app)
        await until(app, lambda: app.screen is screen(app))
        await pilot.press("d")
        assert "lr_schedule" not in text(app)


async def test_lists_have_a_line_an_item_and_tables_are_toml(folder):
    app = editing(folder, SEED)
    async with app.run_test(size=SIZE) as pilot:
        await until(app, "no problems")
        await go_to(app, "evaluation.seeds")
        await pilot.press("enter")
        await until(app, "an item a line")
        await pilot.press("enter", *"17", "tab")
        assert "seeds = [0, 1, 2, 3, 4, 5, 17] " in text(app)
        await until(app, lambda: app.screen is screen(app))
        await go_to(app, "rollout.env_config")
        await pilot.press("enter")
        await until(app, "a line of TOML")
        await pilot.press(*"size =")
        await until(app, "no TOML")
        await pilot.press("tab", *" 4", "tab")
        assert "env_config = { size = 4 }" in text(app)


async def test_migration_shows_the_change_first(folder):
    app = editing(folder, SEED)
    async with app.run_test(size=SIZE) as pilot:
        await until(app, "7 old spellings")
        await pilot.press("m")
        await until(app, "+[policy]")
        assert text(app) == SEED
        await pilot.press("enter")
        await until(app, "no problems")
        await until(app, lambda: "old spelling" not in screen_text(app))
        assert "[compute.topology]" in text(app)


async def test_a_search_goes_through_names_values_and_help(folder):
    app = editing(folder, SEED)
    async with app.run_test(size=SIZE) as pilot:
        await until(app, "no problems")
        await pilot.press("/", *"clip")
        await until(app, "find: clip")
        assert "training.clip_eps_low" in screen_text(app)
        await pilot.press("enter", "escape")
        await until(app, lambda: "find:" not in screen_text(app))
        await pilot.press("/", *"zzz", "escape")
        assert "170 fields" in screen_text(app)


async def test_the_field_that_is_called_so_comes_first(folder):
    app = editing(folder, SEED)
    async with app.run_test(size=SIZE) as pilot:
        await until(app, "no problems")
        await pilot.press("/", *"iterations_per_epoch", "enter")
        assert key(app) == "training.iterations_per_epoch"
        await pilot.press("escape", "/", *"iteration", "enter")
        keys = [row.key for row in screen(app).fields.source.rows]
        named = ["iteration" in one for one in keys]
        assert named == sorted(named, reverse=True) and False in named


async def test_a_required_field_that_is_emptied_has_no_value_and_says_so(folder):
    app = editing(folder, SEED)
    async with app.run_test(size=SIZE) as pilot:
        await until(app, "no problems")
        await go_to(app, "training.learning_rate")
        await pilot.press("enter", "ctrl+u", "enter")
        await until(app, "1 problem", "! it must be given")
        row = screen(app).view.find("training.learning_rate")
        assert (row.value, row.note, row.missing) == ("", "must be given", True)


async def test_the_config_of_another_project_is_not_opened(folder, tmp_path):
    elsewhere = tmp_path.parent / f"{tmp_path.name}-elsewhere"
    elsewhere.mkdir()
    (elsewhere / "theirs.toml").write_text(SEED)
    app = build(folder)
    app.memory.put("config", str(elsewhere / "theirs.toml"))
    async with app.run_test(size=SIZE) as pilot:
        await pilot.press("2")
        await until(app, "open a file, or begin with")
        assert screen(app).form is None


async def test_the_copy_of_a_run_is_gone_to_once_it_is_there(folder, monkeypatch):
    """Keys that come meanwhile must not reach the config that was open before."""
    go_on = threading.Event()
    run = run_in(folder, "alpha")
    (run / "config.toml").write_text(SEED)
    reading = ConfigScreen._open_start
    monkeypatch.setattr(ConfigScreen, "_open_start", lambda *args: go_on.wait(20) and reading(*args))
    app = editing(folder, SEED)
    go_on.set()
    async with app.run_test(size=SIZE) as pilot:
        await until(app, "no problems", "my.toml")
        go_on.clear()
        await pilot.press("1")
        await until(app, "1 run")
        await pilot.press("c")
        assert isinstance(app.screen, RunsScreen)
        go_on.set()
        await until(app, "alpha.toml * new")
        assert isinstance(app.screen, ConfigScreen)


async def test_a_text_that_is_no_toml_is_shown_with_the_place(folder):
    app = editing(folder, SEED.replace("[services]", "[services"))
    async with app.run_test(size=SIZE) as pilot:
        await until(app, "is no TOML: line 14")
        await until(app, "e opens")
        await pilot.press("enter", "x", "m", "!")
        assert app.failure is None


async def test_a_search_begins_anew(folder):
    app = editing(folder, SEED)
    async with app.run_test(size=SIZE) as pilot:
        await until(app, "no problems")
        await pilot.press("/", *"clip", "enter", "/", *"seed")
        await until(app, "find: seed")


async def test_a_task_app_that_is_not_there_is_said(folder):
    app = editing(folder, SEED.replace("https://some-tunnel.trycloudflare.com", "nofile.py"))
    async with app.run_test(size=SIZE) as pilot:
        await until(app, "a run of it would not start: services.task_url")
        await go_to(app, "services.task_url")
        await pilot.press("r")
        await until(app, "there is no file")


async def test_readonly_looks_only(folder):
    app = editing(folder, SEED, readonly=True)
    async with app.run_test(size=SIZE) as pilot:
        await until(app, "no problems")
        await go_to(app, "training.mask_truncated")
        await pilot.press("enter", "s")
        assert Path("my.toml").read_text() == SEED and app.screen is screen(app)
    assert drafts.all_drafts() == []


async def test_without_a_config_presets_are_offered_and_a_new_one_gets_a_name(folder):
    app = build(folder)
    async with app.run_test(size=SIZE) as pilot:
        await pilot.press("2")
        await until(app, "single_gpu_lora")
        await pilot.press("enter")
        await until(app, "no problems")
        assert "demo.toml * new" in screen_text(app)
        await pilot.press("s")
        await until(app, "save as")
        await pilot.press("enter")
        await until(app, "enter writes it")
        await pilot.press("enter")
        await until(app, "saved demo.toml")
        assert Path("demo.toml").read_text().startswith("#")


async def test_a_run_is_copied_into_a_new_config(folder):
    run = run_in(folder, "alpha")
    (run / "config.toml").write_text(SEED)
    app = build(folder)
    async with app.run_test(size=SIZE) as pilot:
        await until(app, "1 run")
        await pilot.press("c")
        await until(app, "alpha.toml * new")
        assert text(app) == (run / "config.toml").read_text()
        assert screen(app).form.path is None


async def test_two_configs_are_shown_side_by_side(folder):
    app = editing(folder, SEED)
    async with app.run_test(size=SIZE) as pilot:
        await until(app, "no problems")
        await pilot.press("D", "j", "enter")
        await until(app, "Compare with")
        await until(app, "CPU smoke")
        await pilot.press("j", "enter")
        await until(app, "v values side by side")
        await pilot.press("v")
        await until(app, "values differ")
        await until(app, "training.learning_rate")


async def test_the_editor_opens_at_the_line_and_a_mistake_leads_back(folder, tmp_path, monkeypatch):
    calls = tmp_path / "calls"
    script = tmp_path / "ed"
    script.write_text(f'#!/bin/sh\necho "$@" >> {calls}\nsed -i "s/^num_epochs = 1/num_epochs = /" "$2"\n')
    script.chmod(0o755)
    monkeypatch.setenv("VISUAL", str(script))
    app = editing(folder, SEED)
    async with app.run_test(size=SIZE) as pilot:
        await until(app, "no problems")
        await go_to(app, "training.num_epochs")
        import contextlib

        monkeypatch.setattr(app, "suspend", contextlib.nullcontext)
        await pilot.press("e")
        await until(app, "A mistake in it")
        line = SEED[: SEED.index("num_epochs")].count("\n") + 1
        assert calls.read_text().startswith(f"+{line} ") and calls.read_text().strip().endswith("my.toml")
        await pilot.press("j", "enter")
        await until(app, lambda: text(app) == SEED)
        await until(app, "no problems")


async def test_hostile_text_in_a_config_is_only_text(folder):
    evil = "\\u001b]52;c;eA==\\u0007\\u202e[bold]x"
    more = f'\n[judge]\n"bad\\u001b[31mkey" = 1\n[tags]\nnote = "{evil}"\n'
    app = editing(folder, SEED.replace('label = "my-rl-model"', f'label = "{evil}"') + more)
    async with app.run_test(size=SIZE) as pilot:
        await until(app, "1 problem")
        for _ in range(24):
            await pilot.press("]")
            shown = screen_text(app)
            assert "\x1b" not in shown and "\u202e" not in shown
        await pilot.press("!")
        await until(app, lambda: "bad" in key(app))
        assert "\x1b" not in screen_text(app)
        await pilot.press("D", "j", "escape")


async def test_keys_that_come_together_reach_what_they_open(folder):
    app = editing(folder, SEED)
    async with app.run_test(size=SIZE):
        await until(app, "no problems")
        await go_to(app, "training.seed")
        type_at_once(app, "enter", "end", "backspace", "7", "enter")
        await until(app, lambda: "seed = 7" in text(app))


async def test_only_one_line_to_type_in_is_mounted_however_many_fields(folder):
    app = editing(folder, SEED)
    async with app.run_test(size=SIZE):
        await until(app, "no problems")
        assert len(screen(app).query(Input)) <= 3 and len(screen(app).query("*")) < 40


async def test_a_key_can_be_jumped_to_from_the_palette(folder):
    app = editing(folder, SEED)
    async with app.run_test(size=SIZE) as pilot:
        await until(app, "no problems")
        await pilot.press(":", *"lora.r")
        await until(app, "training.lora.r")
        await pilot.press("enter")
        await until(app, lambda: key(app) == "training.lora.r")


async def test_the_help_names_the_rules_that_watch_a_key(folder):
    app = editing(folder, SEED)
    async with app.run_test(size=SIZE):
        await go_to(app, "training.group_size")
        await until(app, "watched by D01")


async def test_a_fault_beside_the_interface_is_said_and_the_editor_stays(folder, monkeypatch):
    app = editing(folder, SEED)
    async with app.run_test(size=SIZE):
        await until(app, "no problems")
        monkeypatch.setattr(screen(app), "_open_file", lambda path, key: 1 / 0)
        screen(app).open(Path("other.toml"))
        await until(app, "ZeroDivisionError")
        assert any("worker failed" in line for line in app.recorder.lines())
