"""The config editor, for tests: opened on a text, and what it says of it."""

from __future__ import annotations

from pathlib import Path

from rltui.app import Options, RltuiApp
from rltui.samples import samples
from rltui.screens.config.screen import ConfigScreen
from tests.tui.app_driver import build, until

SEED = samples()["seed_example"].read_text().replace("your-", "some-")  # a run of it would start
WRONG = SEED.replace("group_size = 4 ", "log_intervall = 5\ngroup_size = 5 ")


def editing(folder: Path, text: str, *, readonly: bool = False) -> RltuiApp:
    """The app, opened on my.toml with this text."""
    Path("my.toml").write_text(text)
    app = build(folder)
    app.options = Options(folder, config=Path("my.toml"), readonly=readonly, quiet=True)
    return app


def screen(app: RltuiApp) -> ConfigScreen:
    found = app.get_screen("config")
    assert isinstance(found, ConfigScreen)
    return found


def text(app: RltuiApp) -> str:
    form = screen(app).form
    assert form is not None
    return form.text


def key(app: RltuiApp) -> str:
    row = screen(app).row
    return row.key if row is not None else ""


async def go_to(app: RltuiApp, name: str) -> None:
    await until(app, lambda: screen(app).view is not None)
    assert screen(app).go_to(name)
