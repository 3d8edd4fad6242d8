"""Which episodes are kept: terms with blanks between them, all of which must hold. Pure.

`reward > 0.5`, `iteration = 12`, `stop != completed`, `has:excl`, `not has:group`, and plain words, which are looked
for in stop reason, exclusion and split.
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
NAMES = (*_NUMBERS, *_WORDS)
_TERM = re.compile(
    r"(?P<no>not\s+)?(?:has:(?P<has>\w+)|(?P<name>[A-Za-z]+)\s*(?P<op><=|>=|!=|<|>|=)\s*(?P<value>[^\s<>=!]+)|(?P<word>\S+))"
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
    tests: list[Test] = []
    fields: dict[str, None] = {}
    at = 0
    while at < len(text):
        if text[at].isspace():
            at += 1
            continue
        found = _TERM.match(text, at)
        assert found is not None  # a word is any character that is no blank
        test, used = _term(found)
        tests.append(_not(test) if found["no"] else test)
        fields.update(dict.fromkeys(used))
        at = found.end()
    return Filter(lambda row: all(test(row) for test in tests), tuple(fields)) if tests else None


def _term(found: re.Match[str]) -> tuple[Test, tuple[str, ...]]:
    if found["has"]:
        field = _field(found["has"], found.start("has"))
        return (lambda row: row.get(field) is not None), (field,)
    if not found["name"]:
        word = found["word"].casefold()
        if any(char in "<>=" for char in word):
            raise FilterError(found.start("word"), f"'{found['word']}' is no field with a value")
        return (lambda row: any(word in str(row.get(field) or "").casefold() for field in _WORDS)), _WORDS
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
