"""What can be told of a run's start before it is started: what is refused, and whether its task app is there."""

from __future__ import annotations

import difflib
import re
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

from rltui.text import clean
from trainer.config import Loaded, Place, Problem
from trainer.config.errors import by_position, shown
from trainer.config.fitting import fitted
from trainer.taskapp.errors import TaskAppError
from trainer.taskapp.registry import ADAPTERS, BUILTIN, builtin_factory

KEY = "services.task_url"
NO_FILE = "no_task_file"  # which depends on the folder that the command is given in
_POSITION = re.compile(r"(.+):(\d+):(\d+)")


def start_problems(loaded: Loaded) -> list[Problem]:
    """Why a run of a valid config would not start, as errors. It looks at nothing outside this machine."""
    found = loaded.launch_problems()
    return [*found, *(fitted(problem) for problem in _task_app(loaded))]


def warnings_of(loaded: Loaded, refusals: list[Problem]) -> list[Problem]:
    """The loader's warnings, and `refusals` as such: what stops a launch stops no loading of a file. By position."""
    known = {(item.key, item.code) for item in loaded.warnings}
    more = [item for item in refusals if (item.key, item.code) not in known]
    told = [replace(item, level="warning", why=f"{item.why}; a run would not start") for item in more]
    return sorted([*loaded.warnings, *told], key=by_position)


def _task_app(loaded: Loaded) -> Iterator[Problem]:
    """That there is no such task app among the files of this machine or the built-in ones."""
    app = loaded.config.services.task_url
    if "://" not in app and app.endswith(".py"):
        path = Path(app).expanduser().absolute()
        if not path.is_file():
            why = f"there is no file {clean(path)}; a path is taken from the folder that you stand in"
            fix = "give the whole path, or go to the folder that it begins in"
            yield Problem(_place(loaded), KEY, why, shown(app), fix=fix, code=NO_FILE)
    elif (name := app.removeprefix("builtin:")).startswith(tuple(ADAPTERS)):
        try:
            builtin_factory(name)()
        except TaskAppError as error:
            yield Problem(_place(loaded), KEY, error.message, shown(app), fix=error.hint, code="no_task_app")
    elif app.startswith("builtin:") and name not in BUILTIN:
        known = [f'"builtin:{name}"' for name in BUILTIN]
        why = "there is no built-in task app of that name"
        near = difflib.get_close_matches(f'"{app}"', known, n=1, cutoff=0) or known
        fix, allowed = f"task_url = {near[0]}", f"{', '.join(known)}, a path that ends in .py, or an address"
        yield Problem(_place(loaded), KEY, why, shown(app), allowed=allowed, fix=fix, code="no_task_app")


def _place(loaded: Loaded) -> Place:
    origin = loaded.origins[KEY]
    at = origin.at or f"--{origin.kind}"
    if origin.kind in ("env", "override"):
        return Place(f"{origin.kind} {at}")
    position = _POSITION.fullmatch(at)
    return Place(position[1], int(position[2]), int(position[3])) if position else Place(at)
