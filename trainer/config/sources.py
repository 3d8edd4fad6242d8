"""Where values come from: file, environment, `overrides=`, `--set`. Each becomes a list of `Given`."""

import shlex
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cache
from pathlib import PurePath
from types import MappingProxyType
from typing import Any, Literal

from trainer.config.errors import Place, Problem, cut
from trainer.config.keys import OPEN_SECTIONS, all_keys, all_sections
from trainer.config.migrations import MOVES, NO_EFFECT, SECTION_MOVES
from trainer.config.positions import Positions
from trainer.config.secrets import is_secret, masked, may_hold_secret
from trainer.config.toml_values import format_key, format_value, parse_value, split_key

Source = Literal["file", "env", "override", "set"]
ENV_PREFIX = "RLTUI__"
CHECKPOINT_PREFIXES = ("ft:", "fft:", "qft:", "rl:")

LOADER_KEYS = ("env_file_path",)  # read by the loader itself; no values of a run

_OLD_LEAVES = frozenset(move.old for move in MOVES)
_OPEN = frozenset([*OPEN_SECTIONS, *(key[:-2] for key in NO_EFFECT if key.endswith(".*"))])


@dataclass(frozen=True, slots=True)
class Given:
    """One value as it was given. `place` points at the value, `key_place` at the name.

    `text`: how it is spelt in the file, if that is one line.
    """

    key: str
    value: Any
    source: Source
    place: Place
    key_place: Place
    text: str | None = None


def from_file(data: Mapping[str, Any], positions: Positions, name: str) -> list[Given]:
    """What the file `name` gives: a leaf each, with its place and its text."""

    def place(found: tuple[int, int] | None) -> Place:
        return Place(name) if found is None else Place(name, *found)

    given = []
    for path, key, value in flatten(data):
        at, name_at = place(positions.of_value(path)), place(positions.of_key(path))
        given.append(Given(key, value, "file", at, name_at, positions.text_of(path)))
    return given


def from_json(data: Mapping[str, Any], name: str) -> list[Given]:
    """A job body: positions are JSON pointers; null is unset."""
    given = []
    for path, key, value in flatten(data):
        if value is not None:
            pointer = "".join(f"/{part.replace('~', '~0').replace('/', '~1')}" for part in path)
            place = Place(f"{name}#{pointer}")
            given.append(Given(key, value, "file", place, place))
    return given


def from_environment(
    environ: Mapping[str, str], files: Mapping[str, str] = MappingProxyType({})
) -> tuple[list[Given], list[Problem]]:
    """`TASK_APP_URL` and `RLTUI__SECTION__KEY`; the second is the more exact of two that say the same.

    Args:
        environ: all variables.
        files: of those that a file of variables gave, its path by the variable's name.
    """

    def place_of(name: str) -> Place:
        return Place(f"env {name} of {files[name]}" if name in files else f"env {name}")

    given: dict[str, Given] = {}
    problems = []
    if url := environ.get("TASK_APP_URL", "").strip():
        place = place_of("TASK_APP_URL")
        given["services.task_url"] = Given("services.task_url", url, "env", place, place)
    for name in sorted(environ):
        if not name.startswith(ENV_PREFIX):
            continue
        place = place_of(name)
        key = ".".join(part.lower() for part in name.removeprefix(ENV_PREFIX).split("__"))
        if key in LOADER_KEYS:
            why, fix = "no effect: it is not read from the environment", f"give it in the file, or by --set {key}=PATH"
            problems.append(Problem(place, key, why, fix=fix, level="warning", code="no_effect"))
            continue
        try:
            values = list(flatten(_nest(split_key(key), parse_value(environ[name]))))
        except ValueError as error:
            example = _example(key)
            fix = f"unset {name}" if example is None else f"{name}={example}"
            problems.append(_broken(place, key, environ[name], str(error), fix))
            continue
        for _, inner, item in values:
            _add(given, Given(inner, item, "env", place, place))
    return list(given.values()), problems


def from_overrides(overrides: Mapping[str, Any]) -> list[Given]:
    """A nested mapping, dotted keys, or both; `task_url`, `model`, `backend` have their own meaning."""
    given: dict[str, Given] = {}

    def add(key: str, value: Any, name: str) -> None:
        place = Place(f"override {name}")
        _add(given, Given(key, _plain(value), "override", place, place))

    for name, value in ((str(name), value) for name, value in overrides.items()):
        if name == "backend":  # the address of the job API, no part of the config
            continue
        if name == "task_url":
            add("services.task_url", value, name)
        elif name == "model" and isinstance(value, str):
            source = value.startswith(CHECKPOINT_PREFIXES)
            add("policy.source" if source else "policy.model_name", value, name)
            add("policy.model_name" if source else "policy.source", None, name)
        else:
            for _, key, item in flatten(_nest(_parts(name), value)):
                add(key, item, key)
    return list(given.values())


def _plain(value: Any) -> Any:
    """Python's own kinds of lists and paths as the config has them."""
    if isinstance(value, Mapping):
        return {str(name): _plain(item) for name, item in value.items()}
    if isinstance(value, list | tuple):
        return [_plain(item) for item in value]
    return str(value) if isinstance(value, PurePath) else value


def from_sets(sets: Sequence[str]) -> tuple[list[Given], list[Problem]]:
    """`a.b=c`, in order; of two for one key the later one counts."""
    given: dict[str, Given] = {}
    problems = []
    for text in sets:
        place = Place("--set")
        name, equals, value = text.partition("=")
        try:
            if not equals:
                raise ValueError("no `=` in it")
            for _, inner, item in flatten(_nest(split_key(name.strip()), parse_value(value))):
                _add(given, Given(inner, item, "set", place, place))
        except ValueError as error:
            key = name.strip()
            example = _example(key)
            fix = "--set training.group_size=4" if example is None else f"--set {key}={example}"
            problems.append(_broken(place, key, value, str(error), fix))
    return list(given.values()), problems


def _broken(place: Place, key: str, text: str, why: str, fix: str) -> Problem:
    """An assignment that cannot be read. Its text is told, unless it may be a secret."""
    secret = is_secret(key, text.strip("\"'[{ ")) or may_hold_secret(f"{key}={text}")
    value = None if secret or not text else cut(text.strip())
    return Problem(place, masked(key), why, value, allowed="KEY=VALUE", fix=fix, code="syntax")


def _example(key: str) -> str | None:
    """A value of `key` as a shell wants it."""
    known = all_keys().get(key)
    value = None if known is None else known.meta.get("example", known.default)
    if value is None:
        return None
    return shlex.quote(value if isinstance(value, str) else format_value(value))


def deep_merge(low: Any, high: Any) -> Any:
    """Tables merge key by key, `high` winning; anything else is replaced."""
    if not (isinstance(low, Mapping) and isinstance(high, Mapping)):
        return high
    merged = dict(low)
    for name, value in high.items():
        merged[name] = deep_merge(merged[name], value) if name in merged else value
    return merged


def _add(given: dict[str, Given], item: Given) -> None:
    """Of two values of one source for one key the later counts; tables merge."""
    if item.key in given:
        item = replace(item, value=deep_merge(given[item.key].value, item.value))
    given[item.key] = item


def flatten(data: Mapping[str, Any]) -> Iterator[tuple[tuple[str, ...], str, Any]]:
    """(path, key, value) of every leaf; a table is one where the schema, or an old key, has a table. An empty table
    that nobody knows is a leaf too: else a misspelt section would pass while nothing stands in it."""
    yield from _flatten(data, ())


def _flatten(data: Mapping[str, Any], prefix: tuple[str, ...]) -> Iterator[tuple[tuple[str, ...], str, Any]]:
    for name, value in data.items():
        path = (*prefix, str(name))
        key = ".".join(format_key(part) for part in path)
        parent = ".".join(prefix)
        now = ".".join([SECTION_MOVES.get(path[0], path[0]), *(format_key(part) for part in path[1:])])
        is_leaf = (now in all_keys() and key != "tags") or (now in _OLD_LEAVES and not _holds_old(now, value))
        is_free = parent in _OPEN and key not in OPEN_SECTIONS
        if isinstance(value, Mapping) and not is_leaf and not is_free and (value or now in _tables()):
            yield from _flatten(value, path)
        else:
            yield path, key, value


@cache
def _tables() -> frozenset[str]:
    """Whatever a known key, or an old one, stands in."""
    parts = [key.split(".") for key in (*all_keys(), *_OLD_LEAVES, *NO_EFFECT)]
    return frozenset([*all_sections(), *(".".join(key[:count]) for key in parts for count in range(1, len(key)))])


def _holds_old(key: str, value: Any) -> bool:
    """`rubric.event` is a boolean in some files and a table of old keys in others."""
    return isinstance(value, Mapping) and any(old.startswith(f"{key}.") for old in _OLD_LEAVES)


def _nest(path: tuple[str, ...], value: Any) -> dict[str, Any]:
    *tables, last = path
    nested = {last: value}
    for name in reversed(tables):
        nested = {name: nested}
    return nested


def _parts(name: str) -> tuple[str, ...]:
    """A key of `overrides`: TOML where it is that, else whatever stands between the dots."""
    try:
        return split_key(name)
    except ValueError:
        return tuple(name.split("."))
