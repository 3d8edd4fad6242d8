"""Which episodes are kept: terms that must all hold, with `or` between alternatives. Pure.

`reward > 0.5`, `iteration = 12 and stop != completed`, `has:excl or split = eval`, `not has:group`, and plain words or
a `/regex/`, which are looked for in stop reason, exclusion and split.
"""

from __future__ import annotations

import operator
import re
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

Row = dict[str, Any]
Test = Callable[[Row], bool]

_OPS: dict[str, Callable[[Any, Any], bool]] = {
    "<=": operator.le,
    ">=": operator.ge,
    "!=": operator.ne,
    "<": operator.lt,
    ">": operator.gt,
    "=": operator.eq,
}
# name: field of the index row; of a pair the second counts
_NUMBERS = {
    "n": "n",
    "iteration": "iteration",
    "step": "step",
    "attempt": "attempt",
    "seed": "seed",
    "group": "group",
    "member": "member",
    "reward": "R",
    "turns": "turns",
    "tokens": "tok",
    "version": "ver",
    "wall": "wall",
}
_WORDS = ("stop", "excl", "split")
_LONGEST = 40  # characters of a word that are looked at: no expression takes long on them
NAMES = (*_NUMBERS, *_WORDS)
_TERM = re.compile(
    r"(?P<no>not\s+)?(?:has:(?P<has>\w+)|(?P<name>[A-Za-z]+)\s*(?P<op><=|>=|!=|<|>|=)\s*(?P<value>[^\s<>=!]+)"
    r"|/(?P<regex>(?:[^/\\]|\\.)+)/|(?P<word>\S+))"
)


class FilterError(ValueError):
    """`column` (from 0) is where it went wrong; the text says what."""

    def __init__(self, column: int, what: str) -> None:
        super().__init__(what)
        self.column = column


@dataclass(frozen=True)
class Filter:
    """`fields` of the index row that `keep` looks at."""

    keep: Test
    fields: tuple[str, ...]


def parse(text: str) -> Filter | None:
    """None: everything is kept. FilterError."""
    alternatives: list[list[Test]] = [[]]
    fields: dict[str, None] = {}
    at = 0
    while at < len(text):
        if text[at].isspace():
            at += 1
            continue
        found = _TERM.match(text, at)
        assert found is not None  # a word is any character that is no blank
        joint = (found["word"] or "").casefold()
        if joint in ("and", "or") and not found["no"]:
            if not alternatives[-1] or not text[found.end() :].strip():
                raise FilterError(found.start(), f"{joint} stands between two terms")
            if joint == "or":
                alternatives.append([])
        else:
            test, used = _term(found)
            alternatives[-1].append(_not(test) if found["no"] else test)
            fields.update(dict.fromkeys(used))
        at = found.end()
    if not alternatives[-1]:
        return None
    return Filter(lambda row: any(all(test(row) for test in tests) for tests in alternatives), tuple(fields))


def _term(found: re.Match[str]) -> tuple[Test, tuple[str, ...]]:
    if found["has"]:
        field = _field(found["has"], found.start("has"))
        return (lambda row: row.get(field) is not None), (field,)
    if found["regex"]:
        return _in_words(_pattern(found)), _WORDS
    if not found["name"]:
        word = found["word"].casefold()
        if any(char in "<>=" for char in word):
            raise FilterError(found.start("word"), f"'{found['word']}' is no field with a value")
        return _in_words(lambda text: word in text.casefold()), _WORDS
    name, sign, value = found["name"].casefold(), found["op"], found["value"]
    field = _field(name, found.start("name"))
    if name in _WORDS:
        if sign not in ("=", "!="):
            raise FilterError(found.start("op"), f"{name} is a word: = or !=")
        wanted = value.casefold()
        return (lambda row: (str(row.get(field) or "").casefold() == wanted) == (sign == "=")), (field,)
    try:
        number = float(value)
    except ValueError:
        raise FilterError(found.start("value"), f"{name} is a number, not {value}") from None
    compare = _OPS[sign]

    def test(row: Row) -> bool:
        have = number_of(row.get(field))
        return have is not None and compare(have, number)

    return test, (field,)


def _in_words(looks: Callable[[str], Any]) -> Test:
    return lambda row: any(looks(str(row.get(field) or "")[:_LONGEST]) for field in _WORDS)


def _pattern(found: re.Match[str]) -> Callable[[str], Any]:
    try:
        return re.compile(found["regex"], re.IGNORECASE).search
    except re.error as error:
        raise FilterError(found.start("regex") + (error.pos or 0), f"not a regular expression: {error.msg}") from None


def number_of(value: Any) -> float | None:
    """A number of an index row, of a pair the second; None for what is none: a record may hold anything."""
    if isinstance(value, list):
        value = value[-1] if value else None
    return value if isinstance(value, int | float) and not isinstance(value, bool) else None


def _field(name: str, at: int) -> str:
    name = name.casefold()
    if name in _WORDS:
        return name
    if name not in _NUMBERS:
        raise FilterError(at, f"no field {name}; there are {', '.join(NAMES)}")
    return _NUMBERS[name]


def _not(test: Test) -> Test:
    return lambda row: not test(row)
