"""The app under Textual's pilot, on folders of synthetic runs: built, and waited for by what it shows."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from pathlib import Path
from typing import Any

from textual import events
from textual._context import visible_screen_stack
from textual._wait import SLEEP_GRANULARITY, wait_for_idle
from textual.keys import key_to_character

from rltui.app import Options, RltuiApp
from rltui.look import Look, ThemeFiles
from rltui.smoke.asked import Asked
from rltui.terminal.capabilities import ColorMode, Terminal
from trainer.rundir.synth import SynthConfig, write_run

WAIT_S = 60.0
MOST_TURNS = 10_000  # of the loop: what keeps itself busy is not waited for


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


async def idle(min_sleep: float = SLEEP_GRANULARITY, max_sleep: float = 1.0) -> None:
    """What the pilot waits for instead of the framework's own, which counts 20 ms without work as the end of it: a
    machine that is busy elsewhere has those in the midst. After them all that is due in the app's thread is done."""
    await wait_for_idle(min_sleep, max_sleep)
    ready = asyncio.get_running_loop()._ready  # type: ignore[attr-defined]
    empty = 0
    for _ in range(MOST_TURNS):
        empty = 0 if ready else empty + 1
        if empty > 1:  # the turn between has looked at timers, and at what threads have left
            return
        await asyncio.sleep(0)


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


async def drawn(app: RltuiApp) -> None:
    """Wait until the overview stands, with values in its charts and the focus in one of them."""
    await until(app, lambda: "╭─ reward" in screen_text(app) and app.focused is not None)
    await until(app, lambda: "no values" not in screen_text(app))
