"""The smoke test's screen on task apps that are really served: run, stepped, played by typed keys, exported, left."""

from __future__ import annotations

import contextlib
import json
import threading
from dataclasses import replace
from pathlib import Path
from typing import Any

import psutil
import pytest

from rltui.app import RltuiApp
from rltui.model.first_prompt import Prompt
from rltui.screens.smoke.screen import SmokeScreen
from rltui.smoke.asked import Asked
from rltui.smoke.events import Done, Idle, Opened
from rltui.smoke.kept import kept_file, read_kept
from rltui.smoke.report import GroupForecast, Plan, Report, SeedSpread, Spread
from rltui.smoke.session import Session
from rltui.smoke.settings import Settings
from tests.tui.app_driver import build, screen_text, until

TOOLS = str(Path(__file__).parents[1] / "smoke" / "tool_app.py")
SMALL: dict[str, Any] = {"seeds": (0, 1), "group_size": 2}
CONFIG = (Path(__file__).parents[2] / "sample_configs" / "demo.toml").read_text()  # group_size = 8
SIZE = (120, 40)


def screen_of(app: RltuiApp) -> SmokeScreen:
    frame = app.frame
    assert isinstance(frame, SmokeScreen)
    return frame


def task_apps() -> list[psutil.Process]:
    """Those that this process serves."""
    found = []
    for child in psutil.Process().children():
        with contextlib.suppress(psutil.NoSuchProcess):  # it may end meanwhile
            if "trainer.taskapp" in child.cmdline():
                found.append(child)
    return found


async def test_from_nothing_to_a_verdict_that_comes_while_another_screen_is_shown(folder: Path) -> None:
    app = build(folder)
    async with app.run_test(size=SIZE) as pilot:
        await pilot.press("5")
        await until(app, "No task_url: set it (enter) or start a task app (a)")
        await pilot.press("enter", *"ftp", "escape", "a")
        await until(app, "It is started for the test")
        await pilot.press("j", "enter")
        await until(app, "target builtin:guess")
        await pilot.press("r", "1")
        await until(app, "No runs under")
        await until(app, lambda: app.smoke is not None and task_apps())
        smoke = app.get_screen("smoke")
        assert isinstance(smoke, SmokeScreen)
        await until(app, lambda: smoke.model.phase == "idle")
        await pilot.press("5")
        await until(app, "ready with warnings: 1 warning (S05)", "14 of 14", "32 episodes", "seed 7")
        await pilot.press("g", "enter")
        await until(app, "> GET http://127.0.0.1", "< 200")
        (served,) = task_apps()
    assert not served.is_running()


async def test_a_person_plays_by_typed_keys_and_the_reward_shows(folder: Path) -> None:
    app = build(folder, smoke=Asked(url=TOOLS, **SMALL))
    async with app.run_test(size=SIZE) as pilot:
        await until(app, "target tool_app.py")
        await pilot.press("H")
        for words in ("press(colour: red|green|blue, times: integer)", "Seed 0: press the right button.", "policy you"):
            await until(app, words)
        await pilot.press("tab")
        await until(app, "reply press(colour=")
        await pilot.press(*"gr", "tab", "tab")
        await until(app, "reply press(colour=green, times=")
        await pilot.press("backspace", "backspace", "enter")
        await until(app, "write arguments as")
        await pilot.press("escape", "enter", "end", *["backspace"] * 40, *"pr", "tab", *"red", "tab", *"2", "tab")
        await until(app, "reply press(colour=red, times=2)")
        await pilot.press("enter")
        await until(app, "1.000   1 turn", "─ end", 'press(colour="red", times=2)')
        await pilot.press("P")
        await until(app, "text or an action")
        await pilot.press(*"!give", "space", *"up", "enter")
        await until(app, "given up by hand")
        await pilot.press("left")
        await until(app, "Episode 1 of 2 · seed 0")


async def test_pause_one_turn_stop_and_one_stage_again(folder: Path) -> None:
    app = build(folder, smoke=Asked(url="builtin:guess", **SMALL))
    async with app.run_test(size=SIZE) as pilot:
        await until(app, "target builtin:guess")
        await pilot.press("r")
        model = screen_of(app).model
        await until(app, lambda: model.phase == "running")
        await pilot.press("space")
        await until(app, "space goes on, . one turn")
        play = model.plays[0]
        assert not play.turns and play.tail
        await pilot.press(".")
        await until(app, lambda: len(play.turns) == 1 and play.tail)
        assert "PAUSED" in screen_text(app)
        await pilot.press("X")
        await until(app, lambda: model.phase == "idle")
        await until(app, "· skip  S06", "stopped")
        await pilot.press("g", "R")
        await until(app, lambda: model.what == "stages" and model.phase == "idle")
        assert model.row("S01").state == "ok" and model.row("S07").state == "waiting"


async def test_a_start_that_was_stopped_leaves_the_last_session_to_the_next_start(
    folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It ends slowly, and holds the port of the task app as long."""
    closes, gate, begun = [], threading.Event(), []
    monkeypatch.setattr(Session, "close", lambda session: (closes.append(session), gate.wait(60)))
    monkeypatch.setattr(Session, "begin", lambda session: begun.append(session))
    app = build(folder, smoke=Asked(url="builtin:guess", **SMALL))
    async with app.run_test(size=SIZE) as pilot:
        await until(app, "target builtin:guess")
        app.smoke = last = Session(Asked(url="builtin:guess"), print)
        await pilot.press("r")
        await until(app, lambda: closes == [last])
        await pilot.press("X")
        await until(app, lambda: not screen_of(app).model.running)
        await pilot.press("r")
        await until(app, lambda: closes == [last, last])
        assert not begun
        gate.set()
        await until(app, lambda: begun and app.smoke is begun[0])


async def test_the_config_in_hand_is_tested_kept_and_exported(folder: Path, tmp_path: Path) -> None:
    config = tmp_path / "my.toml"
    config.write_text(CONFIG)
    app = build(folder)
    async with app.run_test(size=SIZE) as pilot:
        app.config_path = config
        await pilot.press("5")
        text = await until(app, "target my.toml")
        assert "my.toml" in text.splitlines()[0]
        screen = screen_of(app)
        screen.asked = Asked(config=config, seeds=(0, 1), group_size=2)
        await pilot.press("r")
        await until(app, lambda: screen.model.phase == "idle" and screen.model.whole)
        report = screen.model.report
        assert report is not None and report.config_hash is not None
        await until(app, lambda: read_kept(report.config_hash) is not None)
        kept_file(report.config_hash).unlink()
        await pilot.press("w", *["backspace"] * 60, *str(tmp_path / "out.json"), "enter")
        await until(app, "written to")
        for path in (tmp_path / "out.json", kept_file(report.config_hash)):
            written = json.loads(path.read_text())
            assert written["schema"] == 1 and len(written["stages"]) == 14
        await pilot.press("w", *["backspace"] * 60, *str(config), "enter")
        await until(app, "no .json file, and already there")
        assert config.read_text() == CONFIG


@pytest.mark.parametrize(("answer", "size"), [("y", 16), ("escape", 8)])
async def test_the_group_size_that_it_names_is_written_when_it_is_confirmed(
    folder: Path, tmp_path: Path, answer: str, size: int
) -> None:
    config = tmp_path / "my.toml"
    config.write_text(CONFIG)
    app = build(folder, smoke=Asked(config=config))
    async with app.run_test(size=SIZE) as pilot:
        await until(app, "target my.toml")
        screen = screen_of(app)
        predicted = (GroupForecast(4, 0.5, 3), GroupForecast(8, 0.4, 3), GroupForecast(16, 0.1, 3))
        spread = Spread((SeedSpread(0, (0.0, 1.0), 0.5, False),), 0.5, 0.5, 0.0, 1.0, predicted)
        report = Report("", None, {}, "", "self", None, (), (), spread, None, "ready", "ready")
        settings = Settings("builtin:guess", plan=Plan(group_size=8))
        for told in (Opened(settings), Done(report), Idle("")):
            screen.model.apply(told, 0.0)
        screen.show_all()
        await until(app, "x: set training.group_size = 16")
        await pilot.press("x")
        await until(app, "training.group_size = 8 becomes 16")
        await pilot.press(answer)
        await until(app, lambda: app.screen is screen, lambda: f"group_size = {size} " in config.read_text())


async def test_a_config_that_is_wrong_is_said_and_nothing_is_started(folder: Path, tmp_path: Path) -> None:
    config = tmp_path / "my.toml"
    config.write_text(CONFIG.replace('"gspo"', '"gspx"'))
    app = build(folder, smoke=Asked(config=config))
    async with app.run_test(size=SIZE) as pilot:
        await until(app, "target my.toml")
        await pilot.press("r")
        await until(app, "not tested: ", "algorithm.variety", "validate")
        assert not task_apps()
        assert app.smoke is not None
        await until(app, lambda: not app.smoke.alive)


async def test_a_recorded_first_prompt_is_asked_again_before_its_seed_is_played(folder: Path, tmp_path: Path) -> None:
    """Both show; whether the app begins the seed with the same words today is said."""
    config = tmp_path / "my.toml"
    config.write_text(CONFIG)
    app = build(folder, smoke=Asked(config=config))
    async with app.run_test(size=SIZE) as pilot:
        await until(app, "target my.toml")
        prompt = Prompt(12, ({"role": "user", "content": "What was asked then?"},), ())
        app.play_in_smoke(config, 3, prompt)
        model = screen_of(app).model
        await until(app, lambda: [play.stage for play in model.plays.values() if play.episode] == ["recorded", "play"])
        await until(app, lambda: model.phase == "idle")
        asked, played = model.plays.values()
        assert (
            asked.turns[0].messages_tail == prompt.messages and asked.turns[0].reply and asked.seed == played.seed == 3
        )
        await until(app, "Episode 2 of 2 · seed 3", "1 turn")  # the pane follows the newest until a key is pressed
        await pilot.press("tab", "left")
        await until(app, "Episode 1 of 2 · seed 3", "What was asked then?", "begins seed 3 with other words today")
        played.turns[0] = replace(played.turns[0], messages_tail=prompt.messages)
        assert model.asks_the_same(asked)
