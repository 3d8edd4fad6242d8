"""Where a person was: theme, screen and open run, and of each run its tab, filters, sort and whether it followed.

Kept in `$XDG_STATE_HOME/rltui/place.json`. It is comfort, not data: a damaged file counts as empty, and no fault
of it ever reaches the person. Nothing in it is secret, yet only its owner can read it: filters may quote a task.
"""

from __future__ import annotations

import json
import os
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from rltui.places import state_folder, write_private

SCHEMA = 1
MOST_RUNS = 200  # the ones used last
MAX_BYTES = 1 << 20
MAX_VALUE_CHARS = 2_000  # of one value as JSON, such as a filter

Json = dict[str, Any]


def state_file(env: Mapping[str, str] = os.environ) -> Path:
    """Where the memory is."""
    return state_folder(env) / "place.json"


class Memory:
    """Values by name: `get`/`put` for the app, `of`/`keep` for a run, whose key is its job id or its path.

    A value is what JSON has. `save` writes; call it when the person leaves a place and at the end. Several
    interfaces may run at once: a save keeps what others wrote meanwhile about runs that this one did not touch.
    """

    def __init__(self, path: Path, *, readonly: bool = False) -> None:
        self._path = path
        self._readonly = readonly
        self._app, self._runs = _read(path)
        self._touched_app: Json = {}
        self._touched_runs: dict[str, Json] = {}

    def get(self, name: str, default: Any = None) -> Any:
        """A value of the app, such as "theme". It may have any type that JSON has: check it before use."""
        return self._app.get(name, default)

    def put(self, name: str, value: Any) -> None:
        """Remember a value of the app. What is no JSON or too long is not remembered."""
        if _fits(value):
            self._app[name] = self._touched_app[name] = value

    def of(self, run: str) -> Json:
        """All that is remembered of a run; empty for an unknown one. A copy."""
        return dict(self._runs.get(run, {}))

    def keep(self, run: str, **values: Any) -> None:
        """Remember these values of a run, beside what is remembered of it already."""
        kept = {name: value for name, value in values.items() if _fits(value)}
        known = self._runs.pop(run, {})  # the run used last comes last
        self._touched_runs.pop(run, None)
        self._runs[run] = self._touched_runs[run] = {**known, **kept}
        while len(self._runs) > MOST_RUNS:
            del self._runs[next(iter(self._runs))]

    def save(self) -> bool:
        """Write the file whole, for its owner only. False: nothing to write, or it could not be written."""
        if self._readonly or not (self._touched_app or self._touched_runs):
            return False
        app, runs = _read(self._path)
        app.update(self._touched_app)
        for run, values in self._touched_runs.items():
            runs.pop(run, None)
            runs[run] = values
        last = dict(list(runs.items())[-MOST_RUNS:])
        text = json.dumps({"schema": SCHEMA, "app": app, "runs": last}, indent=1)
        try:
            write_private(self._path, text.encode())
        except OSError:
            return False
        self._touched_app, self._touched_runs = {}, {}
        return True


def _read(path: Path) -> tuple[Json, dict[str, Json]]:
    """(app, runs) of the file, without whatever is not as we write it."""
    try:
        with path.open("rb") as stream:
            raw = stream.read(MAX_BYTES + 1)
        document = json.loads(raw) if len(raw) <= MAX_BYTES else None
    except (OSError, ValueError, RecursionError):
        return {}, {}
    if not isinstance(document, dict) or document.get("schema") != SCHEMA:
        return {}, {}
    app, runs = document.get("app"), document.get("runs")
    kept = {run: values for run, values in runs.items() if isinstance(values, dict)} if isinstance(runs, dict) else {}
    return (app if isinstance(app, dict) else {}), kept


def _fits(value: Any) -> bool:
    try:
        return len(json.dumps(value, allow_nan=False)) <= MAX_VALUE_CHARS
    except (TypeError, ValueError, RecursionError):
        return False
