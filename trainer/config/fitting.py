"""A fix that speaks of a line of a file, said for a value that no file gave."""

import re
import shlex
import tomllib
from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Any

from trainer.config.errors import Problem
from trainer.config.migrate import Entry
from trainer.config.toml_values import format_key, format_value, parse_value, split_key

OR = "        or   "  # between two fixes
_OF_ENV = re.compile(r"env (\S+)(?: of (.+))?")


def fitted(problem: Problem, entry: Entry | None = None, lines: Sequence[str] = ()) -> Problem:
    """`problem`, whose fix can be carried out where its value was given.

    Args:
        problem: what is wrong.
        entry: what was given for its key.
        lines: those of the file, if there is one.
    """
    if problem.fix is None:
        return problem
    fit: Fit | None = None
    source, fix = problem.file, problem.fix
    if problem.line is not None:
        if problem.line > len(lines) or not lines[problem.line - 1].lstrip().startswith("["):
            return problem
        fit = _of_header
    elif entry is not None and entry.beneath is not None and entry.place == problem.place:
        fix = _uncovering(fix, entry.beneath)
        problem = replace(problem, fix=fix)
    if source == "--set":
        fit = _of_set
    elif match := _OF_ENV.fullmatch(source):
        fit = _of_variable(*match.groups())
    elif source.startswith("override "):
        fit = _of_override
    elif "#/" in source:  # a JSON pointer
        fit = _of_json
    return problem if fit is None else replace(problem, fix=OR.join(fit(problem, way) for way in fix.split(OR)))


Fit = Callable[[Problem, str], str]


def _uncovering(fix: str, beneath: Entry) -> str:
    """A value that is taken away is not derived where a weaker source has another."""
    ways = fix.split(OR)
    applies = f"delete this line; {beneath.shown} of {beneath.place} then applies"
    return OR.join(applies if way.startswith("delete this line") else way for way in ways)


def _of_header(problem: Problem, way: str) -> str:
    """A table with a header of its own has no line that could be replaced."""
    if way.startswith("delete this line"):
        return way.replace("line", "section", 1)
    value = _assigned(problem, way)
    if value is None or not isinstance(value[0], dict):
        return way
    if not value[0]:
        return "delete this section"
    kept = ", ".join(f"{format_key(name)} = {format_value(item)}" for name, item in value[0].items())
    return f"keep in this section only: {kept}"


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
