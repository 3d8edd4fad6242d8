"""The config editor and what it opens, at three sizes and in all looks: see snapshot.py."""

from __future__ import annotations

import importlib
from pathlib import Path

import pytest

from rltui.model.estimates import NOTHING
from rltui.samples import samples
from rltui.screens.config.screen import ConfigScreen
from rltui.widgets.key_bar import KeyBar
from tests.tui.test_snapshots import Open, Walk, opening, world
from trainer.config.machine import Machine

__all__ = ["opening", "world"]  # fixtures
SEED = samples()["seed_example"].read_text().replace("your-", "some-")  # a run of it would start
WRONG = SEED.replace("group_size = 4 ", "log_intervall = 5\ngroup_size = 5 ")


@pytest.fixture(autouse=True)
def machine(monkeypatch: pytest.MonkeyPatch, world: Path, tmp_path: Path) -> None:
    """Another machine would derive other values; the folder is one with a config only."""
    monkeypatch.setattr(importlib.import_module("trainer.config.load"), "inspect", lambda environ: Machine(0))
    monkeypatch.setattr("trainer.config.derive.cpu_is_fast_at_bf16", lambda: True)
    monkeypatch.setattr("rltui.model.form_check.known", lambda loaded: NOTHING)
    monkeypatch.setattr("rltui.model.form_check._facts", {})
    monkeypatch.delenv("TASK_APP_URL", raising=False)
    monkeypatch.chdir(tmp_path)
    Path("guess.toml").write_text(WRONG)


def screen(walk: Walk) -> ConfigScreen:
    found = walk.app.get_screen("config")
    assert isinstance(found, ConfigScreen)
    return found


async def settled(walk: Walk) -> None:
    """The draft is written, and what was said is gone."""
    await walk.until(lambda: screen(walk).said_of_draft)
    screen(walk).query_one(KeyBar).clear_notice()


async def test_config(opening: Open) -> None:
    async with opening("nothing") as walk:
        await walk.until("No runs under")
        await walk.press("2")
        await walk.until("single_gpu_lora")
        await walk.snap("config_starts")
        await walk.press("enter")
        await walk.until("2 problems in 1 section")
        await walk.press("!")
        await walk.snap("config", wide=True)
        await walk.press("x")
        await walk.until("1 problem in 1 section")
        screen(walk).go_to("training.learning_rate")
        await walk.press("enter", "backspace", "e")
        await walk.until(lambda: screen(walk).extra[1] == "a string was given")
        await settled(walk)
        await walk.snap("config_typing")
        await walk.press("backspace", "4", "enter", "!", "x", "s")
        await walk.until("enter writes it")
        await walk.snap("config_save", only="Pane")
        await walk.press("escape")
        await walk.until(lambda: walk.app.screen is screen(walk))
        await settled(walk)
        await walk.press("/", *"clip", "enter")
        await walk.snap("config_find", count="find: clip")
        await walk.press("escape")
        screen(walk).go_to("training.anchor")
        await walk.press("enter")
        await walk.until("proximal")
        await walk.snap("config_choice", only="Pane")


async def test_a_config_that_is_no_toml(opening: Open) -> None:
    Path("guess.toml").write_text(SEED.replace("[services]", "[services"))
    async with opening("nothing") as walk:
        await walk.until("No runs under")
        await walk.press("2")
        await walk.until("single_gpu_lora")
        await walk.press("enter")
        await walk.until("is no TOML")
        await walk.snap("config_broken")
