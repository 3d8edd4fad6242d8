"""Which episodes are kept: terms that must all hold, with `or` between alternatives. Pure.

`reward > 0.5`, `iteration = 12 and stop != completed`, `has:excl or split = eval`, `not has:group`,
`text = "too high"`, and plain words or a `/regex/`, which are looked for in stop reason, exclusion, split and in what
was said.
"""

from __future__ import annotations

import operator
import re
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any

from rltui.model.expressions import LINE_LIMIT, BadExpression, compiled

Row = dict[str, Any]  # an index row with its fate (model.fates); `said`: gives the text when it is asked for
Test = Callable[[Row], bool]

_OPS: dict[str, Callable[[Any, Any], bool]] = {
    "<=": operator.le,
    ">=": operator.ge,
    "!=": operator.ne,
    "<": operator.lt,
    ">": operator.gt,
    "=": operator.eq,
}
# name: fields of the row that it is made of
NUMBERS: dict[str, tuple[str, ...]] = {
    "n": ("n",),
    "iteration": ("iteration",),
    "step": ("step", "used", "split"),
    "attempt": ("attempt",),
    "seed": ("seed",),
    "group": ("group",),
    "member": ("member",),
    "reward": ("R",),
    "advantage": ("adv",),
    "s": ("s",),
    "length": ("tok",),
    "tokens": ("tok",),
    "turns": ("turns",),
    "version": ("ver",),
    "lag": ("lag",),
    "env": ("O",),
    "judge": ("jo", "je"),
    "gap": ("O", "jo", "je"),
    "wall": ("wall",),
}
WORDS = {"stop": "stop", "excl": "excl", "split": "split", "clipped": "clip"}
LATE = frozenset({"adv", "s", "clip", "lag", "used", "excl"})  # known only later: see model.fates
_SAID = ("stop", "excl", "split")
_LONGEST = 40  # characters of a word that are looked at: no expression takes long on them
NAMES = (*NUMBERS, *WORDS, "text")
_VALUE = r'"(?P<quoted>[^"]*)"|/(?P<pattern>(?:[^/\\]|\\.)+)/|(?P<value>[^\s<>=!"/][^\s<>=!]*)'
_TERM = re.compile(
    r"(?P<no>not\s+)?(?:has:(?P<has>\w+)|(?P<name>[A-Za-z]+)\s*(?P<op><=|>=|!=|<|>|=)\s*(?:" + _VALUE + r")"
    r"|/(?P<regex>(?:[^/\\]|\\.)+)/|(?P<word>\S+))"
)
_SEEMS_NESTED = re.compile(r"[<>=]|\bhas:|\s(?:and|or)\s")


class FilterError(ValueError):
    """`column` (from 0) is where it went wrong; the text says what."""

    def __init__(self, column: int, what: str) -> None:
        super().__init__(what)
        self.column = column


@dataclass(frozen=True)
class Filter:
    """`fields` of the row that `keep` looks at."""

    keep: Test
    fields: tuple[str, ...]

    @property
    def late(self) -> bool:
        """Whether it asks for what becomes known after an episode's end."""
        return not LATE.isdisjoint(self.fields)


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
            if text[at] == "(" and _SEEMS_NESTED.search(text, at):
                raise FilterError(at, "there are no parentheses: `and` binds closer than `or`, and `not` one term")
            test, used = _term(found)
            alternatives[-1].append(_not(test) if found["no"] else test)
            fields.update(dict.fromkeys(used))
        at = found.end()
    if not alternatives[-1]:
        return None
    return Filter(lambda row: any(all(test(row) for test in tests) for tests in alternatives), tuple(fields))


def _term(found: re.Match[str]) -> tuple[Test, tuple[str, ...]]:
    if found["has"]:
        return _has(found)
    if found["regex"]:
        return _anywhere(_pattern(found, "regex"))
    if not found["name"]:
        word = found["word"].casefold()
        if any(char in "<>=" for char in word):
            raise FilterError(found.start("word"), f"'{found['word']}' is no field with a value")
        return _anywhere(lambda text: word in text.casefold())
    name, sign = found["name"].casefold(), found["op"]
    if name == "text":
        return _text(found)
    value = found["quoted"] if found["quoted"] is not None else found["value"] or f"/{found['pattern']}/"
    at = max(found.start("quoted"), found.start("value"), found.start("pattern"))
    if name in WORDS:
        if sign not in ("=", "!="):
            raise FilterError(found.start("op"), f"{name} is a word: = or !=")
        field, wanted = WORDS[name], value.casefold()
        return (lambda row: (str(row.get(field) or "").casefold() == wanted) == (sign == "=")), (field,)
    get, fields = _getter(name, found.start("name"))
    try:
        number = float(value)
    except ValueError:
        raise FilterError(at, f"{name} is a number, not {value}") from None
    compare = _OPS[sign]

    def test(row: Row) -> bool:
        have = get(row)
        return have is not None and compare(have, number)

    return test, fields


def _has(found: re.Match[str]) -> tuple[Test, tuple[str, ...]]:
    name = found["has"].casefold()
    if name in WORDS:
        field = WORDS[name]
        return (lambda row: row.get(field) not in (None, "none")), (field,)
    get, fields = _getter(name, found.start("has"))
    return (lambda row: get(row) is not None), fields


def _text(found: re.Match[str]) -> tuple[Test, tuple[str, ...]]:
    if found["op"] not in ("=", "!="):
        raise FilterError(found.start("op"), "text has words in it: = or !=")
    if found["pattern"]:
        looks = _pattern(found, "pattern")
    else:
        word = (found["quoted"] if found["quoted"] is not None else found["value"]).casefold()
        looks = lambda text: word in text.casefold()  # noqa: E731 - beside a call that gives one
    wanted = found["op"] == "="
    return (lambda row: any(looks(line) for line in _lines(row)) == wanted), ("said",)


def _anywhere(looks: Callable[[str], Any]) -> tuple[Test, tuple[str, ...]]:
    def test(row: Row) -> bool:
        return any(looks(str(row.get(field) or "")[:_LONGEST]) for field in _SAID) or any(
            looks(line) for line in _lines(row)
        )

    return test, (*_SAID, "said")


def _lines(row: Row) -> Iterator[str]:
    said = row.get("said")
    text = said() if callable(said) else ""
    for line in text.split("\n"):
        for start in range(0, max(1, len(line)), LINE_LIMIT):
            yield line[start : start + LINE_LIMIT]


def _pattern(found: re.Match[str], part: str) -> Callable[[str], Any]:
    text, at = found[part], found.start(part)
    try:
        return compiled(text, re.IGNORECASE).found
    except BadExpression as error:
        raise FilterError(at + (error.column or 0), str(error)) from None


def number_of(value: Any) -> float | None:
    """A number of an index row, of a pair the second; None for what is none: a record may hold anything."""
    if isinstance(value, list):
        value = value[-1] if value else None
    return value if isinstance(value, int | float) and not isinstance(value, bool) else None


def value_of(name: str, row: Row) -> float | None:
    """One of NUMBERS of a row. `step`: the one that used it; of evaluations, the updates done at their start."""
    if name == "step":
        used = number_of(row.get("used"))
        return used if used is not None or row.get("split") != "eval" else number_of(row.get("step"))
    if name in ("judge", "gap"):
        outcome = number_of(row.get("jo"))
        judge = outcome if outcome is not None else number_of(row.get("je"))
        env = number_of(row.get("O"))
        if name == "judge":
            return judge
        return None if judge is None or env is None else judge - env
    return number_of(row.get(NUMBERS[name][0]))


def _getter(name: str, at: int) -> tuple[Callable[[Row], float | None], tuple[str, ...]]:
    name = name.casefold()
    if name not in NUMBERS:
        raise FilterError(at, f"no field {name}; there are {', '.join(NAMES)}")
    fields = NUMBERS[name]
    if len(fields) == 1:
        field = fields[0]
        return (lambda row: number_of(row.get(field))), fields
    return (lambda row: value_of(name, row)), fields


def _not(test: Test) -> Test:
    return lambda row: not test(row)
