"""Task apps by name: the built-in ones, and those that a FILE.py registers for itself."""

from __future__ import annotations

from collections.abc import Callable
from importlib import import_module
from typing import Any

from trainer.taskapp.errors import TaskAppError

# One line per built-in app: its module has `build_config() -> TaskAppConfig`, imported on first use.
BUILTIN: dict[str, str] = {
    "facts": "trainer.taskapp.builtin.facts",
    "guess": "trainer.taskapp.builtin.guess",
}

_registered: dict[str, Callable[[], Any]] = {}


def register_task_app(app_id: str, factory: Callable[[], Any]) -> None:
    """Makes `factory` (-> TaskAppConfig or ASGI app) known under `app_id` in this process."""
    _registered[app_id] = factory


def registered(app_id: str) -> Callable[[], Any] | None:
    """What a FILE.py registered under that name, if anything."""
    return _registered.get(app_id)


def builtin_factory(name: str) -> Callable[[], Any]:
    """The `build_config` of a built-in app; an unknown name is an error that lists the known ones."""
    if name not in BUILTIN:
        known = ", ".join(sorted(BUILTIN))
        raise TaskAppError(
            f"there is no built-in task app {name!r}",
            f"Known: {known}; an own app is given as a path that ends in .py",
        )
    factory: Callable[[], Any] = import_module(BUILTIN[name]).build_config
    return factory
