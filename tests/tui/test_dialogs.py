"""Dialogs under keys that come faster than they open and close."""

from __future__ import annotations

from collections.abc import Callable

import pytest
from textual.app import App, ComposeResult
from textual.screen import ModalScreen

from rltui.actions.log import CommandLog
from rltui.look import default_look
from rltui.screens.choice import Choice, ChoiceScreen
from rltui.screens.command_log import CommandLogScreen
from rltui.screens.confirm import Answer, ConfirmScreen
from rltui.screens.help import HelpScreen
from rltui.screens.jump import JumpScreen
from rltui.screens.palette import Entry, PaletteScreen
from rltui.widgets.lines import Lines
from rltui.widgets.pane import Pane
from tests.tui.app_driver import type_at_once


class Under(App[None]):
    def __init__(self) -> None:
        super().__init__()
        self.look = default_look()
        self.answers: list[object] = []

    def compose(self) -> ComposeResult:
        yield Pane(Lines(), title="under")


DIALOGS: dict[str, Callable[[], ModalScreen]] = {
    "choice": lambda: ChoiceScreen("Steer", [Choice("stop", "stop")]),
    "confirm": lambda: ConfirmScreen("Kill", [], [Answer("k", "kill", "at once")]),
    "help": lambda: HelpScreen([]),
    "jump": lambda: JumpScreen([]),
    "log": lambda: CommandLogScreen(CommandLog()),
    "palette": lambda: PaletteScreen([Entry("action", "one", lambda: None)]),
}
each_dialog = pytest.mark.parametrize("make", DIALOGS.values(), ids=DIALOGS)


@each_dialog
async def test_only_the_first_answer_counts(make):
    app = Under()
    async with app.run_test(size=(80, 24)) as pilot:
        await app.push_screen(make(), app.answers.append)
        type_at_once(app, *["escape"] * 5, "k", "x", "enter")
        await pilot.pause()
        await pilot.pause()
        assert len(app.screen_stack) == 1 and app.answers == [None]


@each_dialog
async def test_a_dialog_below_another_dismisses_nothing(make):
    app = Under()
    async with app.run_test(size=(80, 24)):
        below, above = make(), make()
        await app.push_screen(below, app.answers.append)
        await app.push_screen(above, app.answers.append)
        below.dismiss(None)
        assert app.screen is above and app.answers == []


@each_dialog
async def test_a_dialog_that_opens_while_the_app_leaves_harms_nothing(make):
    app = Under()
    async with app.run_test(size=(80, 24)):
        app.push_screen(make(), app.answers.append)
        app.exit()
    assert app.return_code == 0 and app._exception is None


@each_dialog
async def test_a_dialog_that_is_left_before_it_is_drawn_harms_nothing(make):
    app = Under()
    async with app.run_test(size=(80, 24)) as pilot:
        app.push_screen(make(), app.answers.append)
        app.screen.dismiss(None)
        await pilot.pause()
        assert len(app.screen_stack) == 1 and app.answers == [None]
