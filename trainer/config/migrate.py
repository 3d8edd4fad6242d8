"""Old spellings become new keys (CONFIG section 4): the tables of `migrations`, applied to one source."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cache
from typing import Any, Literal

from trainer.config.errors import HIDDEN, Place, Problem, cut, shown
from trainer.config.migrations import FILLS, MOVES, NO_EFFECT, QUIET, SECTION_MOVES, Move, respelled, tidy
from trainer.config.secrets import is_secret
from trainer.config.sources import LOADER_KEYS, Given, deep_merge
from trainer.config.toml_values import same

ALLOWED = "one spelling, or two that say the same"

OriginKind = Literal["default", "file", "env", "override", "set", "migrated", "derived"]


@dataclass(frozen=True, slots=True)
class Origin:
    """Where a resolved value comes from (WIRE 5.3).

    Attributes:
        at: `file:line:col`, a variable's name or a JSON pointer; of a derived value that of the given one it replaces.
        was: the old key of a migrated value, the formula of a derived one.
        note: the reason, where one is worth saying.
    """

    kind: OriginKind
    at: str | None = None
    was: str | None = None
    note: str | None = None


@dataclass(frozen=True, slots=True)
class Entry:
    """A value under its new key. A weak one only fills a gap: it beats no value, and disputes none.

    `parts`: of a table that lies over others, what gave the parts that it did not give itself, by path.
    `text`: how the value is spelt in the file, if it is still that value.
    `beneath`: what a weaker source gives, which applies where this one is taken away.
    """

    key: str
    value: Any
    origin: Origin
    place: Place
    key_place: Place
    weak: bool = False
    parts: Mapping[tuple[str, ...], Entry] = field(default_factory=dict)
    text: str | None = None
    beneath: Entry | None = None

    @property
    def shown(self) -> str:
        """The given value as one short line."""
        return shown(self.value) if self.text is None else cut(self.text)


def migrate(given: Sequence[Given], context: Mapping[str, Any] | None = None) -> tuple[list[Entry], list[Problem]]:
    """One source's values under their new keys, one warning for each old key, an error where two disagree.

    Args:
        given: what the source gives.
        context: what all sources give, by key as it was given; default: what this one does.
    """
    problems: list[Problem] = []
    context = by_given_key(given) if context is None else context
    entries: dict[str, Entry] = {}
    moved: list[tuple[Given, Move]] = []
    for item in given:
        if item.key in LOADER_KEYS:
            continue
        if (reason := no_effect(item.key)) is not None:
            problems.append(_without_effect(item, reason))
        elif (move := move_of(item.key)) is not None:
            moved.append((item, move))
        else:
            origin = Origin(item.source, _at(item.place))
            entries[item.key] = Entry(item.key, item.value, origin, item.place, item.key_place, text=item.text)
    for item, move in moved:
        problems += _move(item, move, context, entries)
    for entry in list(entries.values()):
        problems += _respell(entry, entries)
    return list(entries.values()), problems


def by_given_key(given: Iterable[Given]) -> dict[str, Any]:
    """Values by key as given, but for sections that moved as a whole: of several for one key the last."""
    values = {}
    for item in given:
        section, dot, rest = item.key.partition(".")
        values[f"{SECTION_MOVES.get(section, section)}{dot}{rest}"] = item.value
    return values


def no_effect(key: str) -> str | None:
    """Why a recognised key has no effect; None for other keys."""
    section = key.partition(".")[0]
    return NO_EFFECT.get(key) or NO_EFFECT.get(f"{section}.*")


def name_now(key: str) -> str:
    """The key itself, or what it is called now."""
    move = move_of(key)
    return key if move is None else move.new


@cache
def move_of(key: str) -> Move | None:
    """The move of an old key, that of its section too; None for one that never moved."""
    section, dot, rest = key.partition(".")
    if section in SECTION_MOVES:
        new = f"{SECTION_MOVES[section]}{dot}{rest}"
        inner = move_of(new)
        return Move(key, new) if inner is None else replace(inner, old=key)
    return _moves().get(key)


@cache
def _moves() -> Mapping[str, Move]:
    return {move.old: move for move in MOVES}


def _at(place: Place) -> str:
    return str(place).removeprefix("env ").removeprefix("override ")


def _without_effect(item: Given, reason: str) -> Problem:
    several = item.key == "hyperparams.num_inner_steps" and isinstance(item.value, int) and item.value > 1
    why = f"recognised, no effect here: {reason}"
    level: Literal["warning", "note"] = "warning" if several else "note"
    return Problem(item.key_place, item.key, why, fix="delete this line", level=level, code="no_effect")


def _move(item: Given, move: Move, context: Mapping[str, Any], entries: dict[str, Entry]) -> list[Problem]:
    if not move.takes(item.value):
        return [_wrong_type(item, move)]
    values = move.values(item.value, context)
    if not values:
        why = "recognised, no effect here" + (f": {move.note}" if move.note else "")
        return [Problem(item.key_place, item.key, why, fix="delete this line", level="note", code="no_effect")]
    problems = []
    moved = []
    text = f"old spelling of {move.new}" + (f" ({move.note})" if move.note else "")
    origin = Origin("migrated", _at(item.place), was=item.key, note=move.note or None)
    for key, value in values.items():
        weak = move.conflict == "unset_only" or key in move.fills
        other = entries.get(key)
        if other is None or (other.weak and not weak):
            text_of_it = item.text if value is item.value else None
            entries[key] = Entry(key, value, origin, item.place, item.key_place, weak, text=text_of_it)
            moved.append(key)
        elif agree(tidy(key, other.value), tidy(key, value)) or key in move.fills:
            continue
        elif move.conflict == "error":
            what = other.key if other.origin.was is None else other.origin.was
            why = f"{what} = {_told(key, other.value)} at {other.place} means the same key, {key}, and differs"
            fix = f"delete {item.key} or {what}"
            code, value = "migration_conflict", _told(key, item.value)
            problems.append(Problem(item.place, item.key, why, value, allowed=ALLOWED, fix=fix, code=code))
        elif move.conflict == "new_wins" and isinstance(value, Mapping):
            entries[key] = replace(other, value=deep_merge(value, other.value), text=None)
            moved.append(key)
            text = f"old spelling of {move.new}; what {other.place} gives there wins"
        else:
            text = f"old spelling of {move.new}; {_told(key, other.value)} from {other.place} is kept"
    fix = f"{item.key} -> {' and '.join(moved)}" if moved else f"delete {item.key}: {move.new} is given"
    problems.append(Problem(item.key_place, item.key, text, fix=fix, level="warning", code="migrated"))
    return problems


def _told(key: str, value: Any) -> str:
    """The loader sorts secrets out before; `rltui config migrate` reads files that may hold some."""
    return HIDDEN if is_secret(key, value) else shown(value)


def _wrong_type(item: Given, move: Move) -> Problem:
    name = item.key.rpartition(".")[2]
    why = f"old spelling of {move.new}, of another type: {move.note}"
    value, allowed = shown(item.value), "true or false"
    return Problem(item.place, item.key, why, value, allowed=allowed, fix=f"{name} = true", code="type")


def agree(value: Any, other: Any) -> bool:
    """Whether two spellings say the same. `1` and `1.0` do, as values of a key; `1` and `true` do not."""
    numbers = all(isinstance(item, int | float) and not isinstance(item, bool) for item in (value, other))
    return value == other if numbers else same(value, other)


def _respell(entry: Entry, entries: dict[str, Entry]) -> list[Problem]:
    """Values whose spelling changed, and the few that are tidied without a word."""
    value = tidy(entry.key, entry.value)
    entry = entries[entry.key] = replace(entry, value=value)
    now = respelled(entry.key, value)
    if now is None:
        return []
    if entry.key not in now:
        del entries[entry.key]
    problems = []
    note = f"given as {shown(value)}"
    said = []
    for key, new in now.items():
        other = None if key == entry.key else entries.get(key)
        weak = entry.weak or key in FILLS
        if other is None or (other.weak and not weak):
            origin = replace(entry.origin, note=note)
            entries[key] = replace(entry, key=key, value=new, origin=origin, weak=weak, text=None)
            said.append(f"{key} = {shown(new)}")
        elif not weak and not agree(other.value, new):
            problems.append(_respell_conflict(entry, now, other, new))
    if entry.key in QUIET:
        return problems
    section = f"{entry.key.rpartition('.')[0]}."
    why = f"old spelling of {', '.join(said)}" if said else "an old spelling of what is given already"
    fix = " and ".join(text.removeprefix(section) for text in said) if said else "delete this line"
    problems.append(Problem(entry.place, entry.key, why, shown(value), fix=fix, level="warning", code="old_value"))
    return problems


def _respell_conflict(entry: Entry, now: Mapping[str, Any], other: Entry, new: Any) -> Problem:
    why = f"means {other.key} = {shown(new)}, but {other.key} = {shown(other.value)} is given at {other.place}"
    name = entry.key.rpartition(".")[2]
    fix = f"{name} = {shown(now[entry.key])}" if entry.key in now else "delete this line"
    fix += f"        or   --set {other.key}={shown(new)}"
    value = shown(entry.value)
    return Problem(entry.place, entry.key, why, value, allowed=ALLOWED, fix=fix, code="migration_conflict")
