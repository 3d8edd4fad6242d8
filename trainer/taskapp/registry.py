"""Task apps by name: the built-in ones, and those that a FILE.py registers for itself."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from importlib import import_module
from typing import Any

from trainer.taskapp.errors import TaskAppError

# One line per built-in app: its module has `build_config() -> TaskAppConfig`, imported on first use.
BUILTIN: dict[str, str] = {
    "facts": "trainer.taskapp.builtin.facts",
    "guess": "trainer.taskapp.builtin.guess",
}

# Adapters to packages of many tasks: their modules have `build_config(DATASET)` and `datasets()`.
ADAPTERS: dict[str, str] = {
    "reasoning_gym": "trainer.taskapp.reasoning_gym",
    "verifiers": "trainer.taskapp.verifiers.app",
}
SPELLINGS = ("reasoning_gym:DATASET", "verifiers:NAME")

_registered: dict[str, Callable[[], Any]] = {}


def register_task_app(app_id: str, factory: Callable[[], Any]) -> None:
    """Makes `factory` (-> TaskAppConfig or ASGI app) known under `app_id` in this process."""
    _registered[app_id] = factory


def registered(app_id: str) -> Callable[[], Any] | None:
    """What a FILE.py registered under that name, if anything."""
    return _registered.get(app_id)


def builtin_factory(name: str) -> Callable[[], Any]:
    """The factory of a built-in app, or of `ADAPTER:DATASET` (also `ADAPTER.DATASET`).

    An unknown name is an error that lists the known ones.
    """
    adapter, _, dataset = name.replace(":", ".", 1).partition(".")
    if adapter in ADAPTERS and dataset:
        return partial(import_module(ADAPTERS[adapter]).build_config, dataset)
    if name not in BUILTIN:
        known = ", ".join([*sorted(BUILTIN), *SPELLINGS])
        raise TaskAppError(
            f"there is no built-in task app {name!r}",
            f"Known: {known}; an own app is given as a path that ends in .py",
        )
    factory: Callable[[], Any] = import_module(BUILTIN[name]).build_config
    return factory
