"""Old spellings become new keys (CONFIG section 4): the tables of `migrations`, applied to one source."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cache
from typing import Any, Literal

from trainer.config.errors import Place, Problem, shown
from trainer.config.keys import all_keys
from trainer.config.migrations import MOVES, NO_EFFECT, SECTION_MOVES, VALUE_SPELLINGS, Move, gpu_type
from trainer.config.sources import Given

OriginKind = Literal["default", "file", "env", "override", "set", "migrated", "derived"]


@dataclass(frozen=True, slots=True)
class Origin:
    """Where a resolved value comes from (WIRE 5.3).

    Attributes:
        at: `file:line:col`, a variable's name or a JSON pointer.
        was: the old key of a migrated value, the formula of a derived one.
        note: the reason, where one is worth saying.
    """

    kind: OriginKind
    at: str | None = None
    was: str | None = None
    note: str | None = None


@dataclass(frozen=True, slots=True)
class Entry:
    """A value under its new key."""

    key: str
    value: Any
    origin: Origin
    place: Place
    key_place: Place


def migrate(given: Sequence[Given]) -> tuple[list[Entry], list[Problem]]:
    """One source's values under their new keys, one warning for each old key, an error where two disagree."""
    problems: list[Problem] = []
    by_key = {item.key: item.value for item in given}
    entries: dict[str, Entry] = {}
    moved: list[tuple[Given, Move]] = []
    for item in given:
        if (reason := no_effect(item.key)) is not None:
            why = f"recognised, no effect here: {reason}"
            problems.append(Problem(item.key_place, item.key, why, fix="delete it", level="note", code="no_effect"))
        elif (move := move_of(item.key)) is not None:
            moved.append((item, move))
        else:
            origin = Origin(item.source, _at(item.place))
            entries[item.key] = Entry(item.key, item.value, origin, item.place, item.key_place)
    for item, move in moved:
        problems += _move(item, move, by_key, entries)
    for entry in list(entries.values()):
        problems += _respell(entry, entries)
    return list(entries.values()), problems


def no_effect(key: str) -> str | None:
    """Why a recognised key has no effect; None for other keys."""
    section = key.partition(".")[0]
    return NO_EFFECT.get(key) or NO_EFFECT.get(f"{section}.*")


@cache
def move_of(key: str) -> Move | None:
    section, dot, rest = key.partition(".")
    if section in SECTION_MOVES:
        new = f"{SECTION_MOVES[section]}{dot}{rest}"
        inner = move_of(new)
        return Move(key, new) if inner is None else replace(inner, old=key)
    return _moves().get(key)


@cache
def _moves() -> Mapping[str, Move]:
    return {move.old: move for move in MOVES}


def deep_merge(low: Any, high: Any) -> Any:
    """Tables merge key by key, `high` winning; anything else is replaced."""
    if not (isinstance(low, Mapping) and isinstance(high, Mapping)):
        return high
    merged = dict(low)
    for name, value in high.items():
        merged[name] = deep_merge(merged[name], value) if name in merged else value
    return merged


def _at(place: Place) -> str:
    return str(place).removeprefix("env ").removeprefix("override ")


def _move(item: Given, move: Move, by_key: Mapping[str, Any], entries: dict[str, Entry]) -> list[Problem]:
    values = move.values(item.value, by_key)
    if not values:
        why = "recognised, no effect here" + (f": {move.note}" if move.note else "")
        return [Problem(item.key_place, item.key, why, level="note", code="no_effect")]
    problems = []
    text = f"old spelling of {move.new}" + (f" ({move.note})" if move.note else "")
    origin = Origin("migrated", _at(item.place), was=item.key, note=move.note or None)
    for key, value in values.items():
        other = entries.get(key)
        if other is None:
            entries[key] = Entry(key, value, origin, item.place, item.key_place)
        elif other.value == value:
            continue
        elif move.conflict == "error":
            what = other.key if other.origin.was is None else other.origin.was
            why = f"{what} = {shown(other.value)} at {other.place} means the same key, {key}, and differs"
            fix = f"delete {item.key} or {what}"
            problems.append(Problem(item.place, item.key, why, shown(item.value), fix=fix, code="migration_conflict"))
        elif move.conflict == "new_wins" and isinstance(value, Mapping):
            entries[key] = replace(other, value=deep_merge(value, other.value))
            text = f"old spelling of {move.new}; what {other.place} gives there wins"
        else:
            text = f"old spelling of {move.new}; {shown(other.value)} from {other.place} is kept"
    fix = f"{item.key} -> {' and '.join(values)}"
    problems.append(Problem(item.key_place, item.key, text, fix=fix, level="warning", code="migrated"))
    return problems


def _respell(entry: Entry, entries: dict[str, Entry]) -> list[Problem]:
    """Values whose spelling changed, and the few that are tidied without a word."""
    if not isinstance(entry.value, str):
        return []
    if entry.key in ("algorithm.type", "algorithm.method", "algorithm.variety"):
        entry = entries[entry.key] = replace(entry, value=entry.value.strip().lower())
    if entry.key.endswith("_url") and entry.key in all_keys():
        entries[entry.key] = replace(entry, value=entry.value.strip().rstrip("/"))
    if entry.key == "compute.gpu_type":
        name, count = gpu_type(entry.value)
        if count is not None:
            entries[entry.key] = replace(entry, value=name)
            entries.setdefault("compute.gpu_count", replace(entry, key="compute.gpu_count", value=count))
        return []
    now = VALUE_SPELLINGS.get(entry.key, {}).get(entry.value)
    if now is None:
        return []
    del entries[entry.key]
    for key, value in now.items():
        if key == entry.key or key not in entries:
            origin = replace(entry.origin, note=f"given as {shown(entry.value)}")
            entries[key] = replace(entry, key=key, value=value, origin=origin)
    said = ", ".join(f"{key} = {shown(value)}" for key, value in now.items())
    why = f"old spelling of {said}"
    return [Problem(entry.place, entry.key, why, shown(entry.value), level="warning", code="old_value")]
