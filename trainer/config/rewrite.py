"""`rltui config migrate`: a file's old spellings become the new ones, in place.

What moves where is what the loader says (`migrate` and its tables); this module only finds the lines. A section
of which every key has a new home is renamed where it stands, other keys move with their comments, and a last
`edit` writes what is left to say: changed values, second keys. The result must load as the original does.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from trainer.config.check import type_problems
from trainer.config.derive import derive
from trainer.config.draft import Draft, EditError
from trainer.config.edit import BOM, MISSING, UNSET, Raw, edit, lookup
from trainer.config.errors import HIDDEN, Place, Problem, shown
from trainer.config.facts import Facts
from trainer.config.keys import all_keys
from trainer.config.load import load_text
from trainer.config.migrate import Entry, agree, by_given_key, migrate, move_of, no_effect
from trainer.config.migrations import Move, respelled, tidy
from trainer.config.positions import Path, Positions
from trainer.config.relocate import relocate
from trainer.config.secrets import is_secret
from trainer.config.sources import Given, flatten, from_file
from trainer.config.toml_values import same, split_key

# Given values that the loader reads differently. They say what they mean once they are written out.
_WRITTEN_OUT = ("algorithm.variety", "training.rewards.step_rewards_beta")


@dataclass(frozen=True)
class Rewritten:
    """
    Attributes:
        text: the file with new spellings; the given text if there is nothing to do.
        moved: old key, new key(s). Where only a value changes, each is `key = value`.
        left: what was not moved and why; as notes, values that were dropped since another one wins.
    """

    text: str
    moved: list[tuple[str, str]]
    left: list[Problem]


def rewrite(text: str, name: str) -> Rewritten:
    """The text with every old spelling replaced; comments, order and unknown keys survive.

    Args:
        text: a TOML document.
        name: the file's name, as it stands in problems.

    Raises:
        ConfigError: the text is no TOML.
    """
    bom = BOM if text.startswith(BOM) else ""
    body = text.removeprefix(BOM)
    try:
        draft = Draft(body)
    except EditError:
        load_text(body, name, environ={})  # says where
        raise
    plan = _plan(draft, name)
    if not plan.moved:
        return Rewritten(text, [], plan.left)
    try:
        relocate(draft, plan.targets, plan.drops)
        new = edit(draft.text, plan.final)
        _check(new, name, plan.entries, plan.problems)
    except EditError as error:
        why = f"the old spellings in this file cannot be rewritten in place: {error}"
        problem = Problem(Place(name), "", why, fix="move them by hand; `rltui validate` lists them", code="rewrite")
        return Rewritten(text, [], [problem, *plan.left])
    return Rewritten(bom + new, plan.moved, plan.left)


def _given(text: str, data: Mapping[str, Any], name: str) -> list[Given]:
    return from_file(data, Positions(text), name)


def _check(text: str, name: str, expected: Mapping[str, Any], problems: list[Problem]) -> None:
    """The new text gives the expected values, and no key is in a conflict that was in none."""
    entries, found = migrate(_given(text, Draft(text).data, name))
    if not same({entry.key: entry.value for entry in entries}, dict(expected)):
        raise EditError("it would say something else")
    if not _conflicts(found) <= _conflicts(problems):
        raise EditError("two spellings would be in conflict")


def _conflicts(problems: list[Problem]) -> set[str]:
    return {problem.key for problem in problems if problem.code == "migration_conflict"}


# --- what is to be done


@dataclass
class _Plan:
    """
    Attributes:
        entries: what the rewritten file must give, by key.
        problems: what the loader says of the file as it is.
        targets: paths of old keys and where their lines go.
        drops: paths of old keys whose value stands elsewhere already.
        final: new keys and the values they must have in the end.
    """

    entries: dict[str, Any]
    problems: list[Problem]
    targets: dict[Path, Path] = field(default_factory=dict)
    drops: set[Path] = field(default_factory=set)
    final: dict[str, Any] = field(default_factory=dict)
    moved: list[tuple[str, str]] = field(default_factory=list)
    left: list[Problem] = field(default_factory=list)


@dataclass(frozen=True, slots=True)
class _Old:
    """An old key with the new ones that it means. No values: it has no effect beside the others of this file."""

    path: Path
    given: Given
    move: Move
    values: Mapping[str, Any]

    @property
    def weak(self) -> bool:
        return self.move.conflict == "unset_only"

    @property
    def shown(self) -> str:
        return _shown(self.given.key, self.given.value)


def _plan(draft: Draft, name: str) -> _Plan:
    given = _given(draft.text, draft.data, name)
    migrated, problems = migrate(given)
    entries = {entry.key: entry for entry in migrated}
    plan = _Plan({key: entry.value for key, entry in entries.items()}, problems)
    olds = _olds(draft.data, given)
    literal = {item.key: item.value for item in given}
    disputed = _disputed(olds, literal, problems)
    compute = draft.data.get("compute")
    is_new = not isinstance(compute, dict) or set(compute) == {"topology"}  # which makes no [compute] for the loader
    half_a_machine = is_new and "compute.gpu_count" not in plan.entries
    said = literal
    left: dict[str, Any] = {}
    for old in sorted(olds, key=lambda old: old.weak):  # weak ones take what the others leave
        if disputed & old.values.keys() or (half_a_machine and "compute.gpu_type" in old.values):
            plan.left.append(_dispute(old, problems) if disputed & old.values.keys() else _half_a_machine(old))
            left[old.given.key] = old.given.value
        elif old.values:
            _plan_move(plan, old, draft)
            said = dict(old.values) | said
    refused = [item for item in problems if item.code in ("migration_conflict", "type")]
    plan.left += [item for item in refused if item.key in literal.keys() - left]
    for old in olds:
        if not old.values and old.move.values(old.given.value, plan.entries | left):
            plan.drops.add(old.path)  # without the keys that moved it would have an effect
            plan.left.append(_dropped(old, "other keys say so"))
    _plan_values(plan, literal, {key: value for key, value in said.items() if key not in disputed})
    _plan_readings(plan, entries, name)
    return plan


def _olds(data: dict[str, Any], given: list[Given]) -> list[_Old]:
    olds = []
    context = by_given_key(given)
    for (path, _, _), item in zip(flatten(data), given, strict=True):
        move = None if no_effect(item.key) else move_of(item.key)
        if move is not None and move.takes(item.value):
            olds.append(_Old(path, item, move, move.values(item.value, context)))
    return olds


def _disputed(olds: list[_Old], literal: Mapping[str, Any], problems: list[Problem]) -> set[str]:
    """New keys on which two spellings disagree, in the eyes of the loader."""
    in_conflict = _conflicts(problems)
    strong = [old for old in olds if not old.weak]
    keys = {key for old in strong if old.given.key in in_conflict for key in old.values}
    said = {key: [old.values[key] for old in strong if key in old.values and key not in old.move.fills] for key in keys}
    disputed = {
        key for key, values in said.items() if not all(agree(value, literal.get(key, values[0])) for value in values)
    }
    return disputed | (in_conflict & all_keys().keys())


def _dispute(old: _Old, problems: list[Problem]) -> Problem:
    for problem in problems:
        if problem.code == "migration_conflict" and problem.key == old.given.key:
            return problem
    why = f"not moved: another spelling of {old.move.new} differs from it"
    place, value = old.given.place, old.shown
    return Problem(place, old.given.key, why, value, fix="delete one of the two", code="migration_conflict")


def _shown(key: str, value: Any) -> str:
    return HIDDEN if is_secret(key, value) else shown(value)


def _half_a_machine(old: _Old) -> Problem:
    why = "not moved: [compute] would need gpu_count, too, and this file does not give it"
    fix = 'gpu_type = "H100:8", with your number of GPUs behind the colon'
    return Problem(old.given.place, old.given.key, why, old.shown, fix=fix, code="missing")


def _dropped(old: _Old, because: str) -> Problem:
    why = f"deleted, since it had no effect: {because}"
    return Problem(old.given.place, old.given.key, why, old.shown, level="note", code="dropped")


def _plan_move(plan: _Plan, old: _Old, draft: Draft) -> None:
    value = old.given.value
    spelt = Raw(draft.value_text(old.path)) if draft.has_value(old.path) else value
    for key, new in old.values.items():
        now = plan.entries.get(key, UNSET)
        plan.final.setdefault(key, spelt if same(now, value) else now)
        if old.path not in plan.targets and (key == old.move.new or same(new, value)):
            target = _target(key, new, value)
            if lookup(draft.data, target) is MISSING and target not in plan.targets.values():
                plan.targets[old.path] = target
    if old.path not in plan.targets:
        plan.drops.add(old.path)
        if not any(_agrees(new, plan.entries.get(key)) for key, new in old.values.items()):
            key = old.move.new if old.move.new in plan.entries else next(iter(old.values))
            plan.left.append(_dropped(old, f"{key} = {_shown(key, plan.entries.get(key))} wins"))
    plan.moved.append((old.given.key, " and ".join(old.values)))


def _target(key: str, new: Any, value: Any) -> Path:
    """Where the value goes: below the new key, if it became part of a table."""
    target: Path = split_key(key)
    while isinstance(new, dict) and len(new) == 1 and not isinstance(value, dict):
        ((part, new),) = new.items()
        target = (*target, part)
    return target


def _agrees(value: Any, now: Any) -> bool:
    """Whether a value is what is there now, or part of it."""
    if isinstance(value, dict) and isinstance(now, dict):
        return all(name in now and _agrees(item, now[name]) for name, item in value.items())
    return agree(value, now)


def _plan_values(plan: _Plan, literal: Mapping[str, Any], said: Mapping[str, Any]) -> None:
    """Values whose spelling changed."""
    for key, value in said.items():
        now = respelled(key, tidy(key, value))
        if now is None:
            continue
        changed = {new: plan.entries.get(new, UNSET) for new in (key, *now)}
        changed = {
            new: value for new, value in changed.items() if value is UNSET or not same(value, literal.get(new, UNSET))
        }
        plan.final |= changed
        if key in literal:
            kept = [new for new in changed if changed[new] is not UNSET]
            now_said = ", ".join(f"{new} = {_shown(new, changed[new])}" for new in kept)
            plan.moved.append((f"{key} = {_shown(key, value)}", now_said))
            if key not in now and kept:  # another key says it now, in the same line
                plan.targets[split_key(key)] = split_key(kept[0])


def _plan_readings(plan: _Plan, entries: Mapping[str, Entry], name: str) -> None:
    """Values that the loader reads differently from how they are written."""
    _, broken = type_problems(entries)
    facts = Facts(file=name, entries=entries, broken=broken, evaluates=False, device="cpu")
    derive(facts)
    for key in _WRITTEN_OUT:
        if key in entries and key in facts.derived:
            was, now = entries[key].value, facts.derived[key]
            plan.final[key] = plan.entries[key] = now
            plan.moved.append((f"{key} = {shown(was)}", f"{key} = {shown(now)}"))
