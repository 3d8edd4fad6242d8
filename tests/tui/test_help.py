"""`?`: the focused thing first, with the keys that work, and the same text as `rltui help`."""

from __future__ import annotations

from typing import ClassVar

from textual.app import App, ComposeResult
from textual.binding import BindingType
from textual.containers import Vertical
from textual.widget import Widget

from rltui.actions.contexts import CONTEXTS
from rltui.actions.guide import TOPICS
from rltui.look import default_look
from rltui.screens.help import HelpScreen, help_sections
from rltui.widgets.bindings import bindings
from rltui.widgets.lines import Lines


class Log(Widget, can_focus=True, inherit_bindings=False):
    BINDINGS: ClassVar[list[BindingType]] = bindings("logs")

    def action_wrap(self) -> None:
        pass

    def action_up(self) -> None:
        pass


class Monitor(Vertical, inherit_bindings=False):
    BINDINGS: ClassVar[list[BindingType]] = bindings("monitor")

    def action_steer(self) -> None:
        pass


class TestApp(App):
    __test__ = False
    ENABLE_COMMAND_PALETTE = False
    BINDINGS: ClassVar[list[BindingType]] = bindings("app")

    def __init__(self) -> None:
        super().__init__()
        self.look = default_look()

    def compose(self) -> ComposeResult:
        with Monitor():
            yield Log()

    def action_help(self) -> None:
        self.push_screen(HelpScreen(help_sections(self.screen)))


async def test_the_nearest_place_comes_first_and_only_what_works():
    app = TestApp()
    async with app.run_test(size=(80, 24)) as pilot:
        app.query_one(Log).focus()
        await pilot.pause()
        found = help_sections(app.screen)
        titles = [section.title for section in found]
        assert titles == ["Logs", "List", "Monitor", "Everywhere", *(title for title, _ in TOPICS.values())]
        assert [label for _, label, _ in found[0].rows] == ["wrap"]
        scrolling = [label for _, label, _ in found[1].rows]
        assert "up" in scrolling and "down" not in scrolling
        assert found[0].about == CONTEXTS["logs"].about


async def test_the_help_scrolls_and_closes_at_every_size():
    app = TestApp()
    async with app.run_test(size=(80, 24)) as pilot:
        app.query_one(Log).focus()
        for size in ((80, 24), (60, 18), (200, 60)):
            await pilot.resize_terminal(*size)
            await pilot.press("question_mark")
            await pilot.pause()
            text = app.screen.query_one(Lines)
            shown = [text.render_line(y).text.rstrip() for y in range(text.page_size)]
            assert shown[0] == " Logs" and all(len(line) <= text.size.width for line in shown)
            await pilot.press("G")
            assert text.at_end
            await pilot.press("g")
            assert text.top == 0
            await pilot.press("question_mark")
            assert not isinstance(app.screen, HelpScreen)
