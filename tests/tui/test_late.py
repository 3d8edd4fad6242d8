"""What comes late: an answer to an older question, a callback of what is gone already, a step of a search in another
text. Threads are held back, and parts are mounted slowly, where the machine may do it by itself."""

from __future__ import annotations

import asyncio
import threading
import time
from pathlib import Path

import pytest
import textual.pilot
from textual.app import App, ComposeResult, ScreenStackError
from textual.css.query import NoMatches
from textual.dom import NoScreen
from textual.message import Message

from rltui.look import Look, default_look
from rltui.model import drafts
from rltui.model.log_lines import Level
from rltui.model.transcript import Transcript as Model
from rltui.screens.command_log import CommandLogScreen
from rltui.screens.config.screen import ConfigScreen
from rltui.screens.monitor.comparing import GroupsFound
from rltui.screens.monitor.rollouts import Rollouts
from rltui.screens.monitor.screen import MonitorScreen
from rltui.screens.set_key import SetScreen
from rltui.screens.smoke.checklist import Checklist
from rltui.screens.smoke.screen import SmokeScreen
from rltui.widgets.finding import Finding
from rltui.widgets.log_view import LogView
from rltui.widgets.transcript import Transcript
from tests.tui.app_driver import WAIT_S, build, run_in, until
from tests.tui.config_driver import SEED, editing, go_to, screen, text
from tests.tui.test_transcript import _turn, episode

SIZE = (120, 36)


# Configs


async def test_of_two_configs_the_one_that_was_asked_for_last_is_shown(folder, here, monkeypatch):
    asked, held, read = threading.Event(), threading.Event(), ConfigScreen._open_file
    ended: list[str] = []

    def slow(self: ConfigScreen, path: Path, key: str):
        if path.name == "first.toml":
            asked.set()
            assert held.wait(WAIT_S)
        answer = read(self, path, key)
        ended.append(path.name)
        return answer

    monkeypatch.setattr(ConfigScreen, "_open_file", slow)
    app = editing(folder, SEED)
    async with app.run_test(size=SIZE) as pilot:
        await until(app, "no problems")
        for name in ("first.toml", "second.toml"):
            Path(name).write_text(SEED)
            app.edit_config(Path(name))
            await until(app, asked.is_set)
        await until(app, "second.toml")
        held.set()
        await until(app, lambda: "first.toml" in ended)
        await pilot.pause()
        form = screen(app).form
        assert form is not None and form.path == Path("second.toml")


async def test_a_draft_is_of_the_config_that_was_edited_whichever_is_open_by_then(folder, here, monkeypatch):
    """The thread that writes it comes to it late."""
    held, keep = threading.Event(), ConfigScreen._keep_draft
    kept: list[str] = []

    def slow(self: ConfigScreen, *given):
        if threading.current_thread() is not threading.main_thread():
            assert held.wait(WAIT_S)
        keep(self, *given)
        kept.append("")

    monkeypatch.setattr(ConfigScreen, "_keep_draft", slow)
    Path("other.toml").write_text(SEED)
    app = editing(folder, SEED)
    async with app.run_test(size=SIZE) as pilot:
        await until(app, "no problems")
        await go_to(app, "training.seed")
        await pilot.press("enter", "backspace", "7", "enter")
        await until(app, lambda: "seed = 7" in text(app))
        screen(app)._draft_timer.stop()
        screen(app)._draft_in_thread()
        app.edit_config(Path("other.toml"))
        await until(app, "other.toml")
        held.set()
        await until(app, lambda: kept)
        draft = drafts.of(str(Path("my.toml").absolute()))
        assert draft is not None and "seed = 7" in draft.text


async def test_whether_an_address_answers_is_said_of_the_one_that_was_asked_about_last(folder, here, monkeypatch):
    asked, held, first = threading.Event(), threading.Event(), "http://127.0.0.1:1"
    ended: list[str] = []

    def reach(url: str):
        if url == first:
            asked.set()
            assert held.wait(WAIT_S)
        ended.append(url)
        return True, f"{url} answers"

    monkeypatch.setattr("rltui.model.reach.reach", reach)
    app = editing(folder, SEED)
    async with app.run_test(size=SIZE) as pilot:
        await until(app, "no problems")
        await go_to(app, "services.task_url")
        screen(app).put(screen(app).row, first)
        screen(app).action_reach()
        await until(app, asked.is_set)
        screen(app).put(screen(app).row, "http://127.0.0.1:2")
        screen(app).action_reach()
        await until(app, "http://127.0.0.1:2 answers")
        held.set()
        await until(app, lambda: first in ended)
        await pilot.pause()
        assert "127.0.0.1:2 answers" in screen(app).extra[1]


# Searches


class Viewed(App[None]):
    def __init__(self, view: Finding) -> None:
        super().__init__()
        self.look: Look = default_look()
        self.view = view

    def compose(self) -> ComposeResult:
        yield self.view


async def searched_while(app: Viewed, change) -> None:
    """The rest of a search comes after `change`."""
    later: list[tuple] = []
    app.view.call_later = lambda job, *given: bool(later.append((job, *given))) or True  # type: ignore[method-assign]
    app.view.find("nowhere")
    del app.view.call_later
    assert later
    change()
    for job, *given in later:
        job(*given)


async def test_a_search_of_a_log_goes_on_when_fewer_lines_are_shown():
    app = Viewed(LogView())
    async with app.run_test(size=(80, 24)) as pilot:
        app.view.append([f"INFO {i}" for i in range(5_000)])
        await pilot.press("g")
        await searched_while(app, lambda: app.view.show_level(Level.ERROR))
        await pilot.pause()
        assert app.view.finder is not None and app._exception is None


async def test_a_search_of_an_episode_ends_with_it(monkeypatch):
    monkeypatch.setattr("rltui.widgets.finding.SLICE_LINES", 5)
    app = Viewed(Transcript())
    async with app.run_test(size=(80, 24)) as pilot:
        app.view.show(episode([_turn(i, "some line") for i in range(10)]))
        short = episode([_turn(0, "nowhere")], cid="rl_y")
        await searched_while(app, lambda: app.view.show(short))
        await pilot.pause()
        assert app.view.cursor == (0, 0) and app._exception is None
        app.view.show(episode([_turn(i, "some line") for i in range(10)]))
        model = Model(short, {})

        def fewer() -> None:  # as by what became known later of the same episode
            app.view.model, app.view._texts = model, None

        await searched_while(app, fewer)
        await pilot.pause()
        assert app._exception is None


# Screens


async def test_a_seed_is_played_however_long_the_screen_takes_to_come(folder, monkeypatch):
    played: list[int] = []
    prepare = SmokeScreen._pre_process

    async def slow(self: SmokeScreen) -> bool:
        await asyncio.sleep(0.3)
        return await prepare(self)

    monkeypatch.setattr(SmokeScreen, "_pre_process", slow)
    monkeypatch.setattr(SmokeScreen, "play_seed", lambda self, *given: played.append(len(self.query(Checklist))))
    app = build(folder)
    async with app.run_test(size=SIZE):
        await until(app, "No runs under")
        app.play_in_smoke(Path("my.toml"), 3, None)
        await until(app, lambda: played)
    assert played == [1]


async def test_what_was_asked_for_before_a_question_takes_its_place(folder):
    run_in(folder, "alpha")
    app = build(folder)
    async with app.run_test(size=SIZE) as pilot:
        await until(app, "1 run")
        await app.push_screen(CommandLogScreen(app.commands))
        app.go("config")
        await until(app, lambda: app.screen_stack == [app.get_screen("config")])
        await app.push_screen(CommandLogScreen(app.commands))
        app.go("config")
        await pilot.pause()
        assert app.screen_stack == [app.get_screen("config")]


async def test_a_hint_that_comes_when_its_dialog_is_gone_is_no_fault(folder, monkeypatch):
    closing, told = threading.Event(), asyncio.Event()

    def keys() -> list[str]:
        assert closing.wait(WAIT_S)
        return ["training.learning_rate"]

    async def gone(self: SetScreen) -> None:
        """Its parts are gone, its workers go on."""
        assert not self.query("#problem")
        closing.set()
        await told.wait()

    tell = SetScreen._tell

    def telling(self: SetScreen, *given: str) -> None:
        told.set()
        tell(self, *given)

    monkeypatch.setattr("trainer.config.differ.live_keys", keys)
    monkeypatch.setattr(SetScreen, "on_unmount", gone, raising=False)
    monkeypatch.setattr(SetScreen, "_tell", telling)
    app = build(folder)
    async with app.run_test(size=SIZE) as pilot:
        await until(app, "No runs under")
        await app.push_screen(SetScreen("alpha", lambda key: None))
        await pilot.press("escape")
        await until(app, told.is_set)
        await pilot.pause()
        assert app.failure is None


async def test_the_groups_of_an_iteration_take_no_key_from_another_tab(folder, monkeypatch):
    found: list[GroupsFound] = []
    post = Rollouts.post_message

    def held(self: Rollouts, message: Message) -> bool:
        return bool(found.append(message)) if isinstance(message, GroupsFound) else post(self, message)

    monkeypatch.setattr(Rollouts, "post_message", held)
    app = build(folder, run_dir=run_in(folder, "alpha"))
    async with app.run_test(size=SIZE) as pilot:
        await until(app, "Job completed")
        monitor = app.screen
        assert isinstance(monitor, MonitorScreen)
        tab = await monitor.show_tab("rollouts")
        assert isinstance(tab, Rollouts)
        await until(app, lambda: tab._rows is not None and len(tab._rows))
        tab.keep("split = train")
        await until(app, lambda: tab.row_here().get("split") == "train")
        tab.action_view()
        await until(app, lambda: found)
        await pilot.press("L")
        await until(app, lambda: app.focused is not None and app.focused.id == "log")
        post(tab, found[0])
        await until(app, lambda: tab.has_class("-group"))
        await pilot.pause()
        assert app.focused is not None and app.focused.id == "log"
        await pilot.press("R")
        await until(app, lambda: app.focused is not None and app.focused.id == "group")


@pytest.mark.parametrize("error", [NoMatches, NoScreen, ScreenStackError])
async def test_what_a_callback_misses_when_the_interface_is_left_is_no_fault(folder, error):
    app = build(folder)
    async with app.run_test(size=SIZE):
        await until(app, "No runs under")

        def missing() -> None:
            raise error("gone")

        app.exit()
        app.screen.call_next(missing)
    assert app.failure is None and app._exception is None


async def test_the_pilot_waits_for_what_a_slow_machine_has_not_done_yet():
    """Stalls in the midst of a chain of messages look like a machine that has nothing to do."""
    loop, done = asyncio.get_running_loop(), []

    def hop(left: int) -> None:
        time.sleep(0.03)
        loop.call_soon(hop, left - 1) if left else done.append(left)

    hop(20)
    await textual.pilot.wait_for_idle(0)
    assert done
