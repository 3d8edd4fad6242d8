"""What the form shows: sections with a row for each key of the schema and for whatever else stands in the file.

A picture of one moment: rows are never changed, a new picture is built after each edit.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from enum import StrEnum
from typing import Any

from rltui.model.estimates import Line
from rltui.model.form_check import Checked
from rltui.model.form_merge import Leaves, leaves
from rltui.model.form_values import Kind, kind_of, shown_value
from trainer.config import Loaded, Problem
from trainer.config.draft import EditError
from trainer.config.edit import BOM
from trainer.config.errors import HIDDEN
from trainer.config.keys import OPEN_SECTIONS, Key, all_keys, all_sections
from trainer.config.migrate import Origin, move_of, no_effect
from trainer.config.migrations import SECTION_MOVES
from trainer.config.positions import Positions
from trainer.config.secrets import is_secret, masked
from trainer.config.sources import LOADER_KEYS, Given, from_file
from trainer.config.toml_values import split_key

TOP, OTHER = "top", "other"  # keys of no table; keys of tables that nobody knows


class State(StrEnum):
    DEFAULT = "default"
    SET = "set"
    CHANGED = "changed"
    MOVED = "moved"
    UNKNOWN = "unknown"
    WRONG = "wrong"


SIGNS = {
    State.DEFAULT: "·",
    State.SET: " ",
    State.CHANGED: "~",
    State.MOVED: "^",
    State.UNKNOWN: "?",
    State.WRONG: "!",
}


@dataclass(frozen=True, slots=True)
class Row:
    """One field.

    Attributes:
        key: its name of today; of a key that is not ours the one in the file.
        value: one line, cleaned by whoever shows it; "" for nothing.
        given: whether the file has it.
        written: the name that the file has it under.
        line: where, from 1.
        was: its text in the base, if that is another; None: not there.
        note: one short thing about the value.
        problems: all about it, the worst first.
        used: whether it does anything beside the other values.
        data: its value, as Python has it.
    """

    key: str
    section: str
    name: str
    value: str
    state: State
    kind: Kind
    given: bool = False
    written: str = ""
    line: int | None = None
    was: str | None = None
    note: str = ""
    problems: tuple[Problem, ...] = ()
    used: bool = True
    data: Any = None

    @property
    def problem(self) -> Problem | None:
        return self.problems[0] if self.problems else None

    @property
    def missing(self) -> bool:
        """Whether it must be given and is not; no problem says so of one field alone."""
        return self.state is State.WRONG and not self.given and (self.problem is None or self.problem.level != "error")

    @property
    def known(self) -> Key | None:
        return all_keys().get(self.key)


@dataclass(frozen=True)
class SectionRows:
    """A section with its rows; `counts` by state."""

    name: str
    rows: tuple[Row, ...]
    counts: Mapping[State, int] = field(default_factory=dict)

    @property
    def errors(self) -> int:
        return self.counts.get(State.WRONG, 0) + self.counts.get(State.UNKNOWN, 0)


@dataclass(frozen=True)
class View:
    """The whole form.

    Attributes:
        loose: errors that belong to no field.
        fresh: whether the problems are those of this text; else they are of an earlier one.
        numbers: what follows from the values; of the last valid text where this one is not.
        loaded: likewise.
    """

    sections: tuple[SectionRows, ...]
    loose: tuple[Problem, ...] = ()
    broken: Problem | None = None
    fresh: bool = True
    numbers: tuple[Line, ...] = ()
    loaded: Loaded | None = None

    @property
    def rows(self) -> list[Row]:
        return [row for section in self.sections for row in section.rows]

    @property
    def errors(self) -> int:
        return sum(section.errors for section in self.sections) + len(self.loose)

    def find(self, key: str) -> Row | None:
        return next((row for row in self.rows if row.key == key or (row.written and row.written == key)), None)


LEVELS = ("error", "warning", "note")


def view(text: str, base: str, name: str, checked: Checked, before: View | None = None) -> View:
    """`checked`: what is known of this text or of an earlier one. `before`: whose derived values are shown while
    the text is not valid."""
    fresh = checked.text == text
    if checked.broken is not None and fresh:
        return View((), broken=checked.broken)
    loaded = checked.loaded or (before.loaded if before else None)
    numbers = checked.numbers or (before.numbers if before else ())
    given = _given(text, name)
    own = {item.key for item in given}
    placed: dict[str, list[Problem]] = {}
    loose = []
    for problem in sorted(checked.problems, key=lambda problem: LEVELS.index(problem.level)):
        keys = _keys_of(problem, own)
        for key in keys:
            placed.setdefault(key, []).append(problem)
        if not keys and problem.level == "error" and problem.code != "missing":
            loose.append(problem)
    builder = _Rows(given, _leaves(text), _leaves(base), placed, frozenset(checked.missing), loaded, checked.derived)
    by_section: dict[str, list[Row]] = {section: [] for section in (TOP, *all_sections(), OTHER)}
    for row in builder.rows():
        by_section[row.section].append(row)
    sections = tuple(
        SectionRows(section, tuple(rows), Counter(row.state for row in rows)) for section, rows in by_section.items()
    )
    return View(tuple(one for one in sections if one.rows), tuple(loose), None, fresh, numbers, loaded)


def _given(text: str, name: str) -> list[Given]:
    import tomllib

    body = text.removeprefix(BOM)
    try:
        return from_file(tomllib.loads(body), Positions(body), name)
    except (ValueError, RecursionError):
        return []


def _leaves(text: str) -> Leaves:
    try:
        return leaves(text)
    except EditError:
        return {}


def _keys_of(problem: Problem, given: set[str]) -> list[str]:
    """The fields that a problem is about, as they are called in the file where they are in it."""
    if not problem.key:
        return []
    if problem.key in given or problem.key in all_keys():
        return [problem.key]
    below = [key for key in given if key.startswith(f"{problem.key}.")]
    if below:
        return below
    parts = problem.key.split(".")
    above = (".".join(parts[:count]) for count in range(len(parts) - 1, 0, -1))
    return next(([key] for key in above if key in all_keys() or key in given), [])


@dataclass
class _Rows:
    given: Sequence[Given]
    now: Leaves
    base: Leaves
    problems: Mapping[str, Sequence[Problem]]
    missing: frozenset[str]
    loaded: Loaded | None
    derived: Mapping[str, Any]
    by_key: dict[str, Given] = field(default_factory=dict)  # of today's name

    def rows(self) -> Iterable[Row]:
        extra = []
        for item in self.given:
            if item.key in all_keys():
                self.by_key[item.key] = item
        for item in self.given:
            move = None if item.key in all_keys() or no_effect(item.key) else move_of(item.key)
            if move is not None and move.new in all_keys() and move.new not in self.by_key:
                self.by_key[move.new] = item
            elif item.key not in all_keys():
                extra.append(item)
        for known in all_keys().values():
            yield self._row(known)
        for item in extra:
            yield self._extra(item)

    def _row(self, known: Key) -> Row:
        section = known.path if known.path in all_sections() else known.section or TOP
        item = self.by_key.get(known.path)
        written = item.key if item is not None else ""
        found = self._problems(known.path, written)
        origin = self.loaded.origins.get(known.path) if self.loaded is not None else None
        derived = known.path in self.derived or (origin is not None and origin.kind == "derived")
        missing = known.path in self.missing and item is None
        data = item.value if item is not None else None if missing else self._data(known)
        row = Row(
            known.path,
            section,
            known.name,
            self._shown(known.path, item, data),
            State.DEFAULT if item is None else State.SET,
            kind_of(known),
            item is not None,
            written,
            item.place.line if item is not None else None,
            note=self._default_note(known, derived, origin),
            problems=found,
            used=self._used(known),
            data=data,
        )
        if item is not None:
            row = replace(row, note="")
        return self._judged(row, missing)

    def _extra(self, item: Given) -> Row:
        section, _, name = item.key.rpartition(".")
        head = item.key.partition(".")[0]
        shown_in = section if section in all_sections() else OTHER if section else TOP
        if shown_in == OTHER and SECTION_MOVES.get(head) in all_sections():
            shown_in = SECTION_MOVES[head]
        if shown_in in (OTHER, TOP) and item.key not in LOADER_KEYS:
            shown_in, name = OTHER, item.key
        elif head == "tags":
            shown_in = "tags"
        found = self._problems(item.key, item.key)
        kind = kind_of(None, item.value)
        row = Row(
            item.key,
            shown_in,
            name,
            self._shown(item.key, item, item.value),
            State.SET,
            kind,
            True,
            item.key,
            item.place.line,
            problems=found,
            data=item.value,
            note="passed on" if section in OPEN_SECTIONS and section != "tags" else "",
        )
        return self._judged(row, False)

    def _problems(self, key: str, written: str) -> tuple[Problem, ...]:
        keys = dict.fromkeys((key, written))
        return tuple(
            sorted(
                (problem for one in keys if one for problem in self.problems.get(one, ())),
                key=lambda problem: LEVELS.index(problem.level),
            )
        )

    def _judged(self, row: Row, missing: bool) -> Row:
        """Its state, what it was, and the note beside it."""
        was, now = self._before(row), self.now.get(row.written or row.key)
        worst = row.problem
        changed = was != now if self.now or self.base else False
        note, state = row.note, row.state
        if changed:
            state = State.CHANGED
            note = f"was {clip(was)}" if was is not None else "new" if row.given else note
        if missing:
            state, note = State.WRONG, "must be given"
        elif worst is not None and worst.level == "error":
            state = State.UNKNOWN if worst.code == "unknown_key" else State.WRONG
            note = worst.why
        elif any(problem.code in ("migrated", "old_value") for problem in row.problems):
            state = State.MOVED
            note = f"{row.written}" if row.written != row.key else "old spelling"
        elif worst is not None and not changed:
            note = worst.why
        return replace(row, state=state, note=note, was=was if changed else None)

    def _before(self, row: Row) -> str | None:
        """The text in the base, under whichever name."""
        for name in (row.written, row.key):
            if name and name in self.base:
                text = self.base[name]
                return HIDDEN if is_secret(name, text.strip("\"'")) else text
        if not row.given:  # it may have stood there under an old name
            for name, text in self.base.items():
                move = move_of(name) if name not in all_keys() else None
                if move is not None and move.new == row.key:
                    return text
        return None

    def _data(self, known: Key) -> Any:
        if known.path in self.derived:
            return self.derived[known.path]
        if self.loaded is not None:
            value: Any = self.loaded.values
            for part in split_key(known.path):
                value = value.get(part) if isinstance(value, Mapping) else None
            return value
        return known.default

    def _shown(self, key: str, item: Given | None, data: Any) -> str:
        if item is None:
            return "" if data is None else shown_value(data)
        if is_secret(item.key, item.value) or is_secret(key, item.value):
            return HIDDEN
        return masked(shown_value(item.value, item.text))

    def _default_note(self, known: Key, derived: bool, origin: Origin | None) -> str:
        if origin is not None and origin.kind in ("env", "override", "set"):
            return f"{origin.kind} {origin.at}"
        if derived or known.derived:
            return "derived" if self._data(known) is not None else "derived later"
        return "default" if known.default is not None else "unset"

    def _used(self, known: Key) -> bool:
        for key, values in known.visible_when.items():
            item = self.by_key.get(key)
            other = all_keys().get(key)
            value = item.value if item is not None else self._data(other) if other is not None else None
            if value not in values:
                return False
        return True


def clip(text: str, limit: int = 40) -> str:
    line = " ".join(text.split())
    return line if len(line) <= limit else line[: limit - 1] + "…"
