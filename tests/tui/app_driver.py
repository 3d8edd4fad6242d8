"""The app under Textual's pilot, on folders of synthetic runs: built, and waited for by what it shows."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from pathlib import Path
from typing import Any

from textual import events
from textual._context import visible_screen_stack
from textual.keys import key_to_character

from rltui.app import Options, RltuiApp
from rltui.look import Look, ThemeFiles
from rltui.smoke.asked import Asked
from rltui.terminal.capabilities import ColorMode, Terminal
from trainer.rundir.synth import SynthConfig, write_run

WAIT_S = 20.0


def run_in(folder: Path, name: str, kind: str = "healthy", episodes: int = 64, number: int = 1, **more: Any) -> Path:
    """A synthetic run `NAME-rl_…` in `folder`; one of kind `running` lives as long as this process."""
    path = folder / f"{name}-rl_{number:016x}"
    write_run(path, SynthConfig(episodes=episodes, kind=kind, seed=number, **more))
    return path


def build(
    folder: Path,
    *,
    run_dir: Path | None = None,
    readonly: bool = False,
    ascii: bool = False,
    smoke: Asked | None = None,
) -> RltuiApp:
    themes = ThemeFiles()
    terminal = Terminal(color=ColorMode.TRUECOLOR, ascii=ascii, dark=True, multiplexer="", ssh=False, fps=4)
    look = Look(themes.load("dark"), terminal.color, terminal.ascii)
    return RltuiApp(
        terminal,
        look,
        themes,
        Options(folder, run=str(run_dir) if run_dir else None, readonly=readonly, quiet=True, smoke=smoke),
    )


def screen_text(app: RltuiApp) -> str:
    """What stands on the terminal, one line a row; below a dialog the screen that it covers."""
    visible_screen_stack.set(app._background_screens)  # as each draw of the app does, in a context of its own
    strips = app.screen._compositor.render_strips()
    return "\n".join("".join(segment.text for segment in strip) for strip in strips)


def type_at_once(app: RltuiApp, *keys: str) -> None:
    """Keys by the framework's names, all of them before the app has looked at the first."""
    for key in keys:
        app.post_message(events.Key(key, key_to_character(key)))


async def until(app: RltuiApp, *what: str | Callable[[], Any]) -> str:
    """Wait until each text is on the screen and each test holds. Gives the screen. AssertionError: it never was.

    Panes paint one after the other: what stands in two of them is waited for in one call.
    """
    deadline = asyncio.get_running_loop().time() + WAIT_S
    while True:
        text = screen_text(app) if app.screen_stack else ""
        missing = [each for each in what if not (each in text if isinstance(each, str) else each())]
        if not missing:
            return text
        assert app.failure is None, app.failure
        assert asyncio.get_running_loop().time() < deadline, f"never: {missing!r}\n{text}"
        await asyncio.sleep(0.01)
