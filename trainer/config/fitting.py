"""A fix that speaks of a line of a file, said for a value that no file gave."""

import re
import shlex
import tomllib
from collections.abc import Callable
from dataclasses import replace
from typing import Any

from trainer.config.errors import Problem
from trainer.config.toml_values import format_value, parse_value, split_key

OR = "        or   "  # between two fixes
_OF_ENV = re.compile(r"env (\S+)(?: of (.+))?")


def fitted(problem: Problem) -> Problem:
    """`problem`, whose fix can be carried out where its value was given."""
    if problem.fix is None or problem.line is not None:
        return problem
    source, fit = problem.file, None
    if source == "--set":
        fit = _of_set
    elif match := _OF_ENV.fullmatch(source):
        fit = _of_variable(*match.groups())
    elif source.startswith("override "):
        fit = _of_override
    elif "#/" in source:  # a JSON pointer
        fit = _of_json
    return problem if fit is None else replace(problem, fix=OR.join(fit(problem, way) for way in problem.fix.split(OR)))


Fit = Callable[[Problem, str], str]


def set_text(key: str, value: Any) -> str:
    """The argument that gives `value`, as a shell wants it."""
    return f"--set {shlex.quote(f'{key}={_bare(value)}')}"


def _bare(value: Any) -> str:
    """Its text as `--set` and variables take it: strings without quotes where that is the same."""
    if isinstance(value, str) and value == value.strip() and parse_value(value) == value:
        return value
    return format_value(value)


def _of_set(problem: Problem, way: str) -> str:
    if way.startswith("delete this line"):
        return way.replace("delete this line", f"leave out --set {problem.key}", 1)
    return way if (value := _assigned(problem, way)) is None else set_text(problem.key, *value)


def _of_variable(name: str, file: str | None) -> Fit:
    def fit(problem: Problem, way: str) -> str:
        if way.startswith("delete this line"):
            undo = f"unset {name}" if file is None else f"delete {name} in {file}"
            return way.replace("delete this line", undo, 1)
        if (value := _assigned(problem, way)) is None:
            return way
        return shlex.quote(f"{name}={_bare(*value)}") if file is None else f"{name}={_bare(*value)} in {file}"

    return fit


def _of_override(problem: Problem, way: str) -> str:
    return way.replace("delete this line", f"leave out the {problem.file}", 1)


def _of_json(problem: Problem, way: str) -> str:
    return way.replace("delete this line", "delete it", 1)


def _assigned(problem: Problem, way: str) -> tuple[Any] | None:
    """The value of `name = value`, if `name` is that of the problem's key."""
    try:
        parsed = tomllib.loads(way)
        name = split_key(problem.key)[-1]
    except (ValueError, RecursionError):
        return None
    return (parsed[name],) if list(parsed) == [name] else None
