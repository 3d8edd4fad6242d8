"""The app: it wires watchers, screens and the terminal together, and holds no logic of its own.

What is imported up here is on the way to the first paint: widgets and words. Readers of runs (numpy, msgspec) are
imported by the watchers' threads, screens that are not the first one when they are opened.
"""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from types import ModuleType
from typing import TYPE_CHECKING, Any, ClassVar

from textual import events
from textual._context import active_message_pump
from textual.app import App, ScreenStackError
from textual.binding import BindingType
from textual.css.query import NoMatches
from textual.dom import NoScreen
from textual.filter import LineFilter
from textual.screen import Screen
from textual.theme import Theme
from textual.widgets import Input

from rltui.actions.keymap import keys_file, load
from rltui.actions.log import CommandLog
from rltui.colorless import Colorless
from rltui.configs_of_app import ConfigsOfApp
from rltui.driver import driver_class
from rltui.later import import_what_comes
from rltui.look.textual_app import app_arguments
from rltui.runs_of_app import RunsOfApp
from rltui.screens.base import AppScreen
from rltui.shelf import Shelf, shelf_file
from rltui.state import Memory, state_file
from rltui.terminal.capabilities import ColorMode, Terminal
from rltui.terminal.crash import Recorder
from rltui.text import clean
from rltui.widgets.bindings import bindings, done_at_once, textual_keymap
from rltui.widgets.notice import Level

if TYPE_CHECKING:
    from rltui.look import Look, ThemeFiles
    from rltui.model.first_prompt import Prompt
    from rltui.opened import OpenRun
    from rltui.smoke.asked import Asked
    from rltui.smoke.session import Session

LATER_S = 0.5  # after the first paint: then there is time for imports
THEME_S = 1.0  # between two looks at the file of the theme
GONE = (NoMatches, NoScreen, ScreenStackError)  # what a callback meets when the interface is taken down around it
SCREENS = ("runs", "config", "launch", "monitor", "smoke", "compare", "doctor")  # keys 1 to 7


@dataclass(frozen=True)
class Options:
    """What the command line asked for. `run`, `config`: the run (its folder or its address) or the config to open at
    once."""

    runs_dir: Path
    run: str | None = None
    config: Path | None = None
    readonly: bool = False
    quiet: bool = False
    smoke: Asked | None = None  # a smoke test to open at once
    server: str | None = None  # a job server to list from now on


class RltuiApp(ConfigsOfApp, RunsOfApp, App[None], inherit_bindings=False):
    TITLE = "rltui"
    BINDINGS: ClassVar[list[BindingType]] = bindings("app")
    ENABLE_COMMAND_PALETTE = False  # ours knows runs, metrics and themes
    ALLOW_SELECT = False  # shift-drag is the terminal's own selection, and nothing of ours has to be walked for it
    ESCAPE_TO_MINIMIZE = False

    def __init__(self, terminal: Terminal, look: Look, themes: ThemeFiles, options: Options) -> None:
        super().__init__(driver_class=driver_class(), **app_arguments(terminal.color))
        self.terminal, self.look, self.themes, self.options = terminal, look, themes, options
        self.animation_level = "none"
        self.recorder = Recorder()
        self.keymap = load(keys_file())
        self.memory = Memory(state_file(), readonly=options.readonly)
        self.shelf = Shelf(shelf_file())
        self.commands = CommandLog()
        self.failure: BaseException | None = None  # what ended the app, if it was a fault of its own
        self._leaving = False
        self.leaving = "detach"  # what is to become of the open run: detach, stop or kill
        self.unsaved = ""  # the config whose edits were left as a draft
        self.opened: OpenRun | None = None
        self.config_path: Path | None = options.smoke.config if options.smoke is not None else None  # in hand
        self.smoke: Session | None = None
        self._servers = {}
        self._ended = set()
        self._disable_tooltips = True
        self._wear()

    # Start and end

    def get_default_screen(self) -> Screen[None]:
        """The one that was asked for. Over an empty one, as the framework has it, both would be laid out and drawn."""
        screen = self._first_screen()
        screen._push_result_callback(self, None)  # which `switch_screen` takes away
        return screen

    def _first_screen(self) -> Screen[None]:
        runs = self._screen("runs")
        if self.options.smoke is not None:
            return self._screen("smoke")
        if self.options.config is not None:
            self._config().open(self.options.config)
            return self._config()
        if self.options.run is not None:
            self._open(self.options.run)
            return self._monitor()
        return runs

    def on_mount(self) -> None:
        self.set_keymap(textual_keymap(self.keymap))
        for problem in (*self.keymap.problems, *self.keymap.conflicts):
            self.say(str(problem), "watch")
        # After the first paint: what it imports would hold that up.
        self.call_after_refresh(self._begin)

    def _begin(self) -> None:
        self.watch_folder(self.options.runs_dir)
        self.watch_servers()
        if self.options.server is not None:
            self.add_server(self.options.server)
        self.set_interval(THEME_S, self._theme_saved)
        self.set_timer(LATER_S, threading.Thread(target=import_what_comes, daemon=True).start)
        if self.opened is not None:
            self.opened.begin(self.get_screen("monitor").post_message)

    def exit(self, *args: Any, **more: Any) -> None:
        self._leaving = True
        if self.config_screen is not None:
            self.config_screen.keep_edits()  # at once: what follows may not come to an end where the terminal is gone
        self._remember()
        self.memory.save()
        super().exit(*args, **more)

    async def on_unmount(self) -> None:
        if self.smoke is not None:  # with the task app and the policy that it has started
            await asyncio.to_thread(self.smoke.close)
        self.stop_watching()
        if self.opened is not None:
            await asyncio.to_thread(self.opened.finish)

    def hang_up(self, number: int) -> None:
        """A signal asks us to end: detach. Runs in the main thread, between two of its instructions."""
        if self._loop is not None:
            self._loop.call_soon_threadsafe(self.exit)

    async def _shutdown(self) -> None:
        self._leaving = True
        await super()._shutdown()

    def _handle_exception(self, error: Exception) -> None:
        if isinstance(error, GONE) and (self._leaving or getattr(active_message_pump.get(), "_pruning", False)):
            return  # a callback of a screen that is being taken down looks for a part that is gone already
        if self.failure is None:
            self.failure = error
        super()._handle_exception(error)

    def _fatal_error(self) -> None:
        self._close_messages_no_wait()  # no traceback on the terminal: it goes into the report

    async def on_event(self, event: events.Event) -> None:
        if self._leaving and isinstance(event, events.InputEvent | events.Paste):
            return  # of a key after `q`: there is no screen left for it
        if isinstance(event, events.Key) and not event.is_forwarded:
            typing = isinstance(self.focused, Input)
            self.recorder.key(event.key, typing=typing)
            if not typing and await done_at_once(self, event.key):
                return
        elif isinstance(event, events.AppFocus) and self._driver is not None:
            enable = getattr(self._driver, "_enable_mouse_support", None)  # a multiplexer may have dropped it
            if enable is not None:
                enable()
        await super().on_event(event)

    def get_line_filters(self) -> Sequence[LineFilter]:
        """Without colours the framework would still send the default ones with each text."""
        return [Colorless()] if self.terminal.color is ColorMode.NONE else super().get_line_filters()

    # Screens

    def _screen(self, name: str) -> Screen[None]:
        if name in self._installed_screens:
            return self.get_screen(name)
        from rltui.screens.build import build

        screen = build(name, self.opened)
        self.install_screen(screen, name)
        return screen

    def go(self, name: str) -> None:
        """Show one of SCREENS."""
        if name in ("monitor", "doctor") and self.opened is None:
            last = self._last_run()
            if last is not None:
                self.open_run(last, name)
                return
            if name == "monitor":
                self.say("no run is open: choose one in Runs with enter")
                return
        self.recorder.add("screen", name)
        if self.config_screen is not None:
            self.config_screen.back = ""  # who goes by keys is not led back
        self._screen(name)
        while self.screen.is_modal:  # what was asked for before the question takes its place, and not beneath it
            self.pop_screen()
        if self.screen is not self.get_screen(name):
            self.switch_screen(name)

    def play_in_smoke(self, config: Path, seed: int, prompt: Prompt | None) -> None:
        """Play one episode of this seed in the Smoke screen, after the policy's answer to a recorded prompt."""
        from rltui.screens.smoke.screen import SmokeScreen

        self.go("smoke")
        screen = self.get_screen("smoke")
        if isinstance(screen, SmokeScreen):
            screen.call_later(screen.play_seed, config, seed, prompt)  # once it is there

    @property
    def frame(self) -> AppScreen | None:
        """The screen below whatever dialog is open."""
        return next((screen for screen in reversed(self.screen_stack) if isinstance(screen, AppScreen)), None)

    # Words

    def say(self, text: str, level: Level = "info") -> None:
        """A notice in the key bar of the screen; it goes with the next key."""
        self.recorder.add("notice", text)
        frame = self.frame
        if frame is not None:
            frame.say(clean(text, 300), level)

    def did(self, command: str, answer: str = "") -> None:
        """Keep the exact command or request of an action in the command log."""
        self.commands.add(command, answer)
        self.recorder.add("action", command)

    def _did(self, command: str, answer: str) -> None:
        self.commands.add(command, answer)

    def copy(self, text: str, what: str = "") -> None:
        """Put `text` on the clipboard of the terminal, and say what is known of it. `what`: what it is, in a word."""
        from rltui.places import state_folder
        from rltui.terminal.clipboard import copy

        if self._driver is not None:
            told = copy(text, self.terminal, self._driver.write, state_folder() / "copies")
            self.say(f"{what}: {told}" if what else told)

    # Looks

    def show_theme(self, name: str, *, remember: bool = True) -> None:
        """Wear the theme of this name. One that cannot be read is named, and the old one stays."""
        from rltui.look import Look, ThemeError

        try:
            theme = self.themes.load(name)
        except ThemeError as error:
            line, key, what = error.problems[0]
            where = f"{Path(error.file).name}:{line}: " if error.file.endswith(".toml") else ""
            self.say(f"{where}{key}{': ' if key else ''}{what}; {self.look.theme.name} stays as it was", "act")
            return
        self.show_look(Look(theme, self.terminal.color, self.terminal.ascii, blocks=self.terminal.blocks))
        if remember:
            self.memory.put("theme", name)
            self.memory.put("theme_on", "dark" if self.terminal.dark else "light")

    def show_look(self, look: Look) -> None:
        """Wear another look from now on."""
        self.look = look
        self._wear()
        for screen in self.screen_stack:
            screen.refresh(layout=True)

    def _theme_saved(self) -> None:
        """Wear a theme again when its file was saved."""
        if self.themes.changed():
            self.show_theme(self.look.theme.name, remember=False)

    def _wear(self) -> None:
        arguments = self.look.textual_theme()
        theme = Theme(**{**arguments, "name": f"rltui-{arguments['name']}"})
        self.register_theme(theme)
        if self.is_running:
            if self.theme == theme.name:  # the same file, saved again
                self._watch_theme(theme.name)
            self.theme = theme.name
        else:
            self.set_reactive(App.theme, theme.name)
            self.stylesheet.set_variables(self.get_css_variables())

    # Actions of the table, context "app"

    def action_runs(self) -> None:
        self.go("runs")

    def action_config(self) -> None:
        self.go("config")

    def action_launch(self) -> None:
        self.go("launch")

    def action_monitor(self) -> None:
        self.go("monitor")

    def action_smoke(self) -> None:
        self.go("smoke")

    def action_compare(self) -> None:
        self.go("compare")

    def action_doctor(self) -> None:
        self.go("doctor")

    async def action_palette(self) -> None:
        await self._dialogs.palette(self)

    async def action_help(self) -> None:
        await self._dialogs.help(self)

    async def action_keys(self) -> None:
        await self._dialogs.keys(self)

    async def action_log(self) -> None:
        await self._dialogs.log(self)

    @property
    def _dialogs(self) -> ModuleType:
        from rltui.screens import dialogs

        return dialogs

    def action_interrupt(self) -> None:
        self.say("q leaves; the run goes on")

    def action_suspend(self) -> None:
        self.action_suspend_process()

    async def action_quit(self) -> None:
        """Leave; with a live run open that was read, ask what is to become of it."""
        if self.opened is not None and self.opened.live and not self.options.readonly:
            await self._dialogs.leave(self, self.opened, self._leave)
        else:
            self.exit()

    def _leave(self, choice: str | None) -> None:
        if choice is not None:
            self.leaving = choice
            self.exit()
