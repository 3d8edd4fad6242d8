"""The config editor: a file that changes outside, and edits that were not saved."""

from __future__ import annotations

from pathlib import Path

import pytest

from rltui.model import drafts
from tests.tui.app_driver import screen_text, until
from tests.tui.config_driver import SEED, editing, go_to, screen, text

SIZE = (120, 36)
pytestmark = pytest.mark.usefixtures("here")


async def test_the_file_is_read_again_where_nothing_is_unsaved(folder):
    app = editing(folder, SEED)
    async with app.run_test(size=SIZE):
        await until(app, "no problems")
        Path("my.toml").write_text(SEED.replace("max_turns = 10", "max_turns = 12"))
        screen(app)._look_at_disk()
        await until(app, "was read again")
        assert "max_turns = 12" in text(app)


async def test_a_change_outside_is_merged_and_never_written_over(folder):
    app = editing(folder, SEED)
    async with app.run_test(size=SIZE) as pilot:
        await until(app, "no problems")
        await go_to(app, "training.learning_rate")
        await pilot.press("enter", *["backspace"] * 4, *"1e-4", "enter")
        theirs = SEED.replace("max_turns = 10", "max_turns = 12")
        Path("my.toml").write_text(theirs)
        await pilot.press("s")
        await until(app, "changed outside since")
        await pilot.press("escape")
        assert Path("my.toml").read_text() == theirs
        await until(app, lambda: app.screen is screen(app))
        await pilot.press("s", "enter")
        await until(app, lambda: "max_turns = 12" in text(app) and "1e-4" in text(app))
        await until(app, lambda: app.screen is screen(app))
        await pilot.press("s")
        await until(app, "enter writes it")
        await pilot.press("enter")
        await until(app, "saved my.toml")
        assert "1e-4" in Path("my.toml").read_text() and "max_turns = 12" in Path("my.toml").read_text()


async def test_a_draft_outlives_the_app_and_is_offered(folder, monkeypatch):
    app = editing(folder, SEED)
    async with app.run_test(size=SIZE) as pilot:
        await until(app, "no problems")
        await go_to(app, "training.seed")
        await pilot.press("enter", "backspace", "7", "enter")
        assert "seed = 7" in text(app)
    assert drafts.of(str(Path("my.toml").absolute())) is not None
    app = editing(folder, SEED)
    async with app.run_test(size=SIZE) as pilot:
        await until(app, "were not saved")
        await pilot.press("enter")
        await until(app, lambda: "seed = 7" in text(app))
        await until(app, lambda: app.screen is screen(app))
        await pilot.press("s")
        await until(app, "enter writes it")
        await pilot.press("enter")
        await until(app, "saved my.toml")
        assert drafts.all_drafts() == []


async def test_edits_beside_a_draft_that_was_left_are_kept_with_it(folder):
    mine, place = SEED.replace("max_turns = 10", "max_turns = 12"), str(Path("my.toml").absolute())
    drafts.keep(drafts.Draft(place, "", mine, SEED, SEED, 1.0))
    app = editing(folder, SEED)
    async with app.run_test(size=(80, 24)) as pilot:
        text_ = await until(app, "were not saved")
        assert "enter take" in text_.splitlines()[-1] and "s save" not in text_.splitlines()[-1]
        await pilot.press("question_mark")
        await until(app, "Escape changes nothing")
        await pilot.press("escape", "escape")
        await until(app, lambda: app.screen is screen(app))
        await until(app, lambda: "s save" in screen_text(app).splitlines()[-1])
        await go_to(app, "training.seed")
        await pilot.press("enter", "backspace", "7", "enter")
        assert "max_turns = 10" in text(app)
    kept = drafts.of(place)
    assert kept is not None and "seed = 7" in kept.text and "max_turns = 12" in kept.text
    assert app.unsaved == "my.toml"


async def test_a_draft_of_another_text_of_the_file_is_said(folder):
    place, theirs = str(Path("my.toml").absolute()), SEED.replace("max_turns = 10", "max_turns = 12")
    drafts.keep(drafts.Draft(place, "", f"# mine\n{SEED}", SEED, SEED, 1.0))
    app = editing(folder, theirs)
    async with app.run_test(size=SIZE) as pilot:
        await until(app, "were not saved")
        await pilot.press("enter")
        await until(app, "the file changed outside: R")
        await until(app, lambda: app.screen is screen(app))
        await pilot.press("s")
        await until(app, "changed outside since")
        await pilot.press("j", "enter")
        await until(app, lambda: app.screen is screen(app) and not screen(app).outside)
        await pilot.press("s")
        shown = await until(app, "enter writes it")
        assert "-max_turns = 12" in shown and "+# mine" in shown
