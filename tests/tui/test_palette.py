"""The palette, the command log and the question with letters: what is found, what is done, and what is refused."""

from __future__ import annotations

import time
from typing import ClassVar

from textual.app import App, ComposeResult
from textual.binding import BindingType
from textual.widget import Widget
from textual.widgets import Input

from rltui.actions.fuzzy import match
from rltui.actions.log import CommandLog
from rltui.actions.table import ACTIONS
from rltui.look import default_look
from rltui.screens.command_log import CommandLogScreen
from rltui.screens.confirm import Answer, ConfirmScreen
from rltui.screens.palette import Entry, Index, PaletteScreen, action_entries
from rltui.widgets.bindings import bindings
from rltui.widgets.lines import Lines
from rltui.widgets.pane import Pane
from rltui.widgets.virtual_list import VirtualList

HOSTILE = "run\x1b]52;c;ZXZpbA==\x07[bold red]x[/]\n\x1b[2J\u202eevil"


def nothing() -> None:
    """An entry that does nothing."""


def labels(query: str, *entries: Entry) -> list[str]:
    return [item.entry.label for item in Index(entries).find(query)]


def entry(label: str, **more: str) -> Entry:
    return Entry(more.pop("kind", "action"), label, nothing, **more)


def test_letters_match_in_order_and_words_in_any():
    assert match("", "x") is not None and match("xz", "x") is None and match("ba", "ab") is None
    assert match("loss", "gspo/loss").at == (5, 6, 7, 8)
    assert match("gl", "gspo/loss").at == (0, 5)
    assert match("mean reward", "reward/mean").at == (*range(6), *range(7, 11))
    assert match("RÉ", "paré").at == (2, 3)
    # İ is two characters in lower case, and must not move the places of what follows
    assert match("b", "İb").at == (1,)


def test_the_better_match_comes_first():
    assert labels("log", entry("catalogue"), entry("log"), entry("logs"))[0] == "log"
    assert labels("sort", entry("support"), entry("sort"), entry("short")) == ["sort", "short", "support"]
    assert labels("theme light", entry("light", kind="theme"), entry("lightning", kind="run")) == ["light"]
    assert labels("stop", entry("stop now", why_not="no run is open"), entry("s t o p")) == ["s t o p", "stop now"]
    assert labels("  ", entry("b"), entry("a")) == ["b", "a"]


def test_a_hostile_name_costs_no_more_than_its_length():
    begun = time.process_time()
    assert match("a" * 30 + "b", "a" * 5_000) is None
    assert Index([entry("ab" * 2_000 + "\x1b")] * 20).find("ab" * 20)
    assert time.process_time() - begun < 2


class Log(Widget, can_focus=True, inherit_bindings=False):
    BINDINGS: ClassVar[list[BindingType]] = bindings("logs")
    did = ""

    def action_wrap(self) -> None:
        self.did += "wrap "


class TestApp(App):
    __test__ = False
    ENABLE_COMMAND_PALETTE = False
    BINDINGS: ClassVar[list[BindingType]] = bindings("app")

    def __init__(self) -> None:
        super().__init__()
        self.look = default_look()
        self.copied: list[str] = []
        self.answers: list[object] = []

    def compose(self) -> ComposeResult:
        yield Log()

    def copy(self, text: str) -> None:
        self.copied.append(text)

    def action_log(self) -> None:
        self.answers.append("log")

    def open(self, entries: list[Entry]) -> None:
        def done(chosen: Entry | None) -> None:
            self.answers.append(chosen and chosen.label)
            if chosen is not None:
                chosen.run()

        self.push_screen(PaletteScreen(entries), done)


def rows(app: App) -> list[str]:
    screen = app.screen
    shown = screen.query_one(VirtualList)
    return [shown.render_line(y).text for y in range(min(shown.line_count, shown.page_size))]


async def test_typing_finds_and_enter_does_it_where_the_focus_was():
    app = TestApp()
    async with app.run_test(size=(100, 30)) as pilot:
        log = app.query_one(Log)
        log.focus()
        await pilot.pause()
        app.open(action_entries(app, app.screen))
        await pilot.pause()
        await pilot.press(*"wrap")
        assert rows(app)[0].split() == ["logs", "wrap", "Wrap", "long", "lines,", "or", "cut", "them.", "W"]
        await pilot.press("enter")
        await pilot.pause()
        assert log.did == "wrap " and app.answers == ["wrap"]
        app.open(action_entries(app, app.screen))
        await pilot.pause()
        await pilot.press(*"exact command", "enter")  # an action without a key
        await pilot.pause()
        assert app.answers == ["wrap", "log", "log"]


async def test_every_action_is_in_it_and_says_why_it_cannot_be_done():
    app = TestApp()
    async with app.run_test(size=(100, 30)) as pilot:
        app.query_one(Log).focus()
        await pilot.pause()
        entries = action_entries(app, app.screen)
        assert len(entries) == sum(action.palette for action in ACTIONS)
        reasons = {(item.kind, item.label): item.why_not for item in entries}
        assert reasons["logs", "wrap"] == "" and reasons["rollouts", "sort"] == "works in Rollouts"
        app.open(entries)
        await pilot.pause()
        await pilot.press(*"rollouts sort", "enter")
        await pilot.pause()
        assert "works in Rollouts" in str(app.screen.query_one(Pane).border_subtitle)
        assert app.answers == [] and isinstance(app.screen, PaletteScreen)
        await pilot.press("escape")
        assert app.answers == [None]


async def test_arrows_choose_and_hostile_names_stay_text():
    app = TestApp()
    async with app.run_test(size=(80, 24)) as pilot:
        app.open([entry(HOSTILE, kind="run", detail=HOSTILE), entry("second", kind="run"), entry("third", kind="run")])
        await pilot.pause()
        first = rows(app)[0]
        assert first.isprintable() and "[bold red]x[/]" in first and len(first) == 76 - 2
        await pilot.press("down", "down", "up", "enter")
        assert app.answers == ["second"]
        app.open([entry("one")])
        await pilot.pause()
        await pilot.press(*"xyz", "enter")
        assert "nothing is called so" in str(app.screen.query_one(Pane).border_subtitle)
        assert app.screen.query_one(Input).value == "xyz"


async def test_the_command_log_copies_the_whole_command():
    app = TestApp()
    log = CommandLog(most=2)
    for number in range(3):
        log.add(f"rltui steer run-{number} set training.learning_rate 1e-5 " + "x" * 200, "accepted")
    async with app.run_test(size=(80, 24)) as pilot:
        app.push_screen(CommandLogScreen(log))
        await pilot.pause()
        shown = rows(app)
        assert "run-1" in shown[0] and "run-2" in shown[1] and "accepted" in shown[1] and "…" in shown[1]
        await pilot.press("y", "up", "y", "q")
        assert app.copied == [log.rows()[1].command, log.rows()[0].command]
        assert not isinstance(app.screen, CommandLogScreen)


async def test_a_question_takes_a_letter_and_nothing_else():
    app = TestApp()
    answers = [Answer("k", "kill", "kill: 12 steps since checkpoint step_400 are lost", danger=True)]

    async def ask(*keys: str) -> object:
        app.answers.clear()
        app.push_screen(ConfirmScreen("Kill", [HOSTILE], answers), app.answers.append)
        await pilot.pause()
        await pilot.press(*keys)
        await pilot.pause()
        return app.answers[0] if app.answers else "open"

    async with app.run_test(size=(60, 18)) as pilot:
        assert await ask("enter", "x", "K", "space", "q") == "open"
        text = app.screen.query_one(Lines)
        shown = [text.render_line(y).text for y in range(text.line_count)]
        assert all(line.isprintable() for line in shown) and any("12 steps since" in line for line in shown)
        await pilot.press("escape")
        assert await ask("escape") is None
        assert await ask("k") == "kill"
