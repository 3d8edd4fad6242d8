"""The dialogs of the whole app, opened with what they need to know. Each is imported when it is first wanted.

Each is awaited until it is there: the next key is for it.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from rltui.app import RltuiApp
    from rltui.opened import OpenRun
    from rltui.screens.palette import Entry


async def palette(app: RltuiApp) -> None:
    """Everything that can be done or opened, by name."""
    from rltui.screens.entries import entries
    from rltui.screens.palette import PaletteScreen

    def chosen(entry: Entry | None) -> None:
        if entry is not None:
            app.recorder.add("palette", entry.label)
            entry.run()

    await app.push_screen(PaletteScreen(entries(app, app.screen)), chosen)


async def help(app: RltuiApp) -> None:
    """The keys that work where the focus is."""
    from rltui.screens.help import HelpScreen, help_sections

    await app.push_screen(HelpScreen(help_sections(app.screen)))


async def keys(app: RltuiApp) -> None:
    """Every key of every place."""
    from rltui.actions.contexts import CONTEXTS
    from rltui.actions.guide import sections
    from rltui.screens.help import HelpScreen

    await app.push_screen(HelpScreen(sections(list(CONTEXTS), app.keymap, ascii=app.look.ascii)))


async def log(app: RltuiApp) -> None:
    """The command behind every action so far."""
    from rltui.screens.command_log import CommandLogScreen

    await app.push_screen(CommandLogScreen(app.commands))


async def leave(app: RltuiApp, opened: OpenRun, chosen: Callable[[str | None], None]) -> None:
    """What is to become of the open run, which has been read."""
    from rltui.screens.quit import quit_screen
    from rltui.screens.steer import kill_screen

    model = opened.model
    assert model is not None

    def sure(choice: str | None) -> None:
        """What cannot be taken back is asked once more."""
        if choice == "kill":
            app.push_screen(kill_screen(opened.name, model.status), chosen)
        else:
            chosen(choice)

    await app.push_screen(quit_screen(opened.name, model.status, model.source.verbs), sure)
