"""A file or a mapping becomes an `RLConfig`, and what is wrong with it a ConfigError with its place."""

from __future__ import annotations

import tomllib
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any, TypeVar

from pydantic import ValidationError

from rltui.sdk.api.train.configs.view import View
from trainer.config import ConfigError, Loaded, Place, Problem, all_keys, load, load_mapping, load_text
from trainer.config.machine import NO_GPUS
from trainer.config.migrate import move_of
from trainer.config.positions import Positions
from trainer.config.toml_values import format_value

T = TypeVar("T", bound=View)

# Of the loader's errors those about one value alone; the others are told by `resolve`.
OF_ONE_VALUE = ("file", "encoding", "syntax", "type")
# What is looked at is the config, whatever this machine and its environment are.
ANYWHERE: dict[str, Any] = {"environ": {}, "allow_unknown": True, "device": "cpu", "machine": NO_GPUS}


def view_of_file(cls: type[T], path: Path) -> tuple[T, str]:
    """The view and the file's text."""
    if not path.exists():
        raise FileNotFoundError(f"Config file not found: {path}")
    _check(lambda: load(path, **ANYWHERE, follow_env_file=False))
    text = path.read_text(encoding="utf-8-sig")
    positions = Positions(text)

    def place(loc: tuple[str, ...]) -> Place:
        while loc:
            if (found := positions.of_key(loc)) is not None:
                return Place(str(path), *found)
            loc = loc[:-1]
        return Place(str(path))

    return _validated(cls, tomllib.loads(text), place), text


def view_of_mapping(cls: type[T], data: Mapping[str, Any]) -> T:
    _check(lambda: load_mapping(data, "config", **ANYWHERE))
    return _validated(cls, data, lambda loc: Place("config#" + "".join(f"/{part}" for part in loc)))


def resolved(given: dict[str, Any], file: tuple[str, str] | None) -> Loaded:
    """`file`: text and name of where it was read; it counts while what is given is still what stands there."""
    if file is not None and tomllib.loads(file[0]) == given:
        return load_text(*file)
    return load_mapping(given, "config")


def _check(read: Callable[[], Loaded]) -> None:
    try:
        read()
    except ConfigError as error:
        if found := [problem for problem in error.problems if problem.code in OF_ONE_VALUE]:
            raise ConfigError(found) from None


def _validated(cls: type[T], data: Mapping[str, Any], place: Callable[[tuple[str, ...]], Place]) -> T:
    try:
        return cls.model_validate(dict(data))
    except ValidationError as error:
        raise ConfigError(_problem(detail, place) for detail in error.errors(include_url=False)) from None


def _problem(detail: Any, place: Callable[[tuple[str, ...]], Place]) -> Problem:
    loc = tuple(str(part) for part in detail["loc"])
    key = ".".join(loc)
    move = move_of(key)
    known = all_keys().get(key if move is None else move.new)
    if detail["type"] == "missing":
        example = known.meta.get("example") if known is not None else None
        line = f"{loc[-1]} = {format_value(example)}"
        fix = f"[{key}]" if len(loc) == 1 else line if example is not None else None
        return Problem(place(loc), key, "required, and missing", fix=fix, code="missing")
    why = str(detail["msg"]).removeprefix("Value error, ")
    return Problem(place(loc), key, why, allowed=known.allowed if known is not None else None, code="type")
