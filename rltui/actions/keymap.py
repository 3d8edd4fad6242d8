"""The user's keys: `$XDG_CONFIG_HOME/rltui/keys.toml` maps ids of actions to keys, and wins over the table.

    "rollouts.filter" = "f"
    "list.up" = ["up", "i"]     several keys; [] takes the keys away

A line that would give one key two meanings in one place is reported with both ids and left out, so that the
interface always has a keymap that works.
"""

from __future__ import annotations

import os
import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from rltui.actions.action import Action
from rltui.actions.contexts import CONTEXTS, OF_ROWS, in_force_with
from rltui.actions.keynames import key_name
from rltui.actions.table import ACTIONS, BY_ID
from rltui.places import config_folder
from rltui.text import clean

MAX_BYTES = 256 << 10
Keys = dict[str, tuple[str, ...]]  # id -> keys, the first one is shown


@dataclass(frozen=True, slots=True)
class Problem:
    """Something wrong in the file. `line` counts from 1; None: the file as a whole."""

    path: Path
    line: int | None
    message: str

    def __str__(self) -> str:
        where = f"{self.path}:{self.line}" if self.line else f"{self.path}"
        return clean(f"{where}: {self.message}", 1000)


@dataclass(frozen=True, slots=True)
class Conflict:
    """Two actions on one key, in force at the same place. `ids`: the one left out first."""

    key: str
    ids: tuple[str, str]

    def __str__(self) -> str:
        return f"{self.key} is the key of {self.ids[0]} and of {self.ids[1]}; {self.ids[0]} keeps its default"


@dataclass(frozen=True, slots=True)
class Keymap:
    """The keys that are in force.

    Attributes:
        keys: of every action of the table.
        changed: ids whose keys the user's file has changed.
        problems: lines of the file that say nothing usable; they are left out.
        conflicts: lines that were left out because of another action's key.
    """

    keys: Keys
    changed: frozenset[str] = frozenset()
    problems: tuple[Problem, ...] = ()
    conflicts: tuple[Conflict, ...] = field(default=())

    def of(self, id: str) -> tuple[str, ...]:
        return self.keys[id]


def default_keys() -> Keys:
    return {action.id: action.keys for action in ACTIONS}


def keys_file(env: Mapping[str, str] = os.environ) -> Path:
    """Where a person's keys are."""
    return config_folder(env) / "keys.toml"


def load(path: Path) -> Keymap:
    """The keymap with what the file at `path` changes. It never raises: what is wrong is in the result."""
    try:
        with path.open("rb") as stream:
            raw = stream.read(MAX_BYTES + 1)
    except FileNotFoundError:
        return Keymap(default_keys())
    except OSError as error:
        return _unusable(path, None, f"cannot be read: {error.strerror}")
    if len(raw) > MAX_BYTES:
        return _unusable(path, None, f"larger than {MAX_BYTES >> 10} KiB; it holds one line for each action at most")
    try:
        text = raw.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        return _unusable(path, raw.count(b"\n", 0, error.start) + 1, "not UTF-8; save it as UTF-8")
    import tomllib  # not on the way to the first paint of those who have no such file

    try:
        document = tomllib.loads(text)
    except (tomllib.TOMLDecodeError, RecursionError) as error:
        found = re.search(r"at line (\d+)", str(error))
        return _unusable(path, int(found[1]) if found else None, f"no valid TOML: {error}")
    return keymap(document, path, text)


def keymap(document: Mapping[str, Any], path: Path, text: str = "") -> Keymap:
    """The keymap of a parsed file; `text` is the file, for the numbers of its lines."""
    wanted: Keys = {}
    problems: list[Problem] = []
    for id, value in _flat(document):
        try:
            wanted[_known(id)] = _keys(value)
        except ValueError as error:
            problems.append(Problem(path, _line(text, id), str(error)))
    conflicts: list[Conflict] = []
    while clash := _clash({**default_keys(), **wanted}, wanted):
        conflicts.append(clash)
        del wanted[clash.ids[0]]
    changed = frozenset(id for id, keys in wanted.items() if keys != BY_ID[id].keys)
    return Keymap({**default_keys(), **wanted}, changed, tuple(problems), tuple(conflicts))


def clashes(keys: Keys) -> Iterator[Conflict]:
    """Every pair of actions that share a key where both are in force."""
    for context in CONTEXTS:
        owners: dict[str, Action] = {}
        for action in _in_force(context):
            for key in keys[action.id]:
                first = owners.setdefault(key, action)
                if first is not action and context in (first.context, action.context):
                    yield Conflict(key, (action.id, first.id))


def _in_force(context: str) -> Iterator[Action]:
    for place in in_force_with(context):
        for action in ACTIONS:
            if action.context == place and (place == context or action.id != OF_ROWS):
                yield action


def _clash(keys: Keys, wanted: Keys) -> Conflict | None:
    """The first clash, named so that the line that can be left out comes first. The table alone has none."""
    for conflict in clashes(keys):
        first, second = conflict.ids
        return conflict if first in wanted else Conflict(conflict.key, (second, first))
    return None


def _unusable(path: Path, line: int | None, message: str) -> Keymap:
    return Keymap(default_keys(), problems=(Problem(path, line, message),))


def _flat(document: Mapping[str, Any], prefix: str = "") -> Iterator[tuple[str, Any]]:
    """(id, value); `[rollouts]` with `filter = "f"` below it, and `rollouts.filter`, are taken as well."""
    for name, value in document.items():
        id = f"{prefix}{name}"
        if isinstance(value, dict):
            yield from _flat(value, f"{id}.")
        else:
            yield id, value


def _known(id: str) -> str:
    if id in BY_ID:
        return id
    from difflib import get_close_matches

    near = get_close_matches(id, BY_ID, n=1)
    hint = f"did you mean {near[0]}?" if near else "`rltui keys` lists the actions"
    raise ValueError(f"no action {clean(id, 80)!a}; {hint}")


def _keys(value: Any) -> tuple[str, ...]:
    items = value if isinstance(value, list) else [value]
    if not all(isinstance(item, str) and item for item in items):
        raise ValueError('a key is text, such as "f", or a list of such, such as ["up", "k"]')
    return tuple(dict.fromkeys(key_name(item) for item in items))


def _line(text: str, id: str) -> int | None:
    """The line that sets `id`: the first whose key ends in its last part. None: not found."""
    last = re.escape(id.rpartition(".")[2])
    pattern = re.compile(rf"""^\s*(?:[^=#]*\.)?["']?(?:[^=#"']*\.)?{last}["']?\s*=""")
    whole = re.compile(rf"""^\s*["']?{re.escape(id)}["']?\s*=""")
    lines = text.splitlines()
    for wanted in (whole, pattern):
        for number, line in enumerate(lines, 1):
            if wanted.match(line):
                return number
    return None
