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
from trainer.config.edit import BOM, MISSING, UNSET, Raw, edit, lookup, same
from trainer.config.errors import Place, Problem, shown
from trainer.config.facts import Facts
from trainer.config.keys import all_keys, all_sections
from trainer.config.load import load_text
from trainer.config.migrate import Entry, by_given_key, migrate, move_of, no_effect
from trainer.config.migrations import Move, respelled, tidy
from trainer.config.positions import Block, Path, Positions
from trainer.config.sources import Given, flatten, from_file
from trainer.config.toml_values import format_key, split_key

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
        _relocate(draft, plan)
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
    plan.left += [item for item in problems if item.code == "migration_conflict" and item.key in literal.keys() - left]
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
        if move is not None:
            olds.append(_Old(path, item, move, move.values(item.value, context)))
    return olds


def _disputed(olds: list[_Old], literal: Mapping[str, Any], problems: list[Problem]) -> set[str]:
    """New keys on which two spellings disagree, in the eyes of the loader."""
    in_conflict = _conflicts(problems)
    strong = [old for old in olds if not old.weak]
    keys = {key for old in strong if old.given.key in in_conflict for key in old.values}
    said = {key: [old.values[key] for old in strong if key in old.values and key not in old.move.fills] for key in keys}
    disputed = {key for key, values in said.items() if any(value != literal.get(key, values[0]) for value in values)}
    return disputed | (in_conflict & all_keys().keys())


def _dispute(old: _Old, problems: list[Problem]) -> Problem:
    for problem in problems:
        if problem.code == "migration_conflict" and problem.key == old.given.key:
            return problem
    why = f"not moved: another spelling of {old.move.new} differs from it"
    place, value = old.given.place, shown(old.given.value)
    return Problem(place, old.given.key, why, value, fix="delete one of the two", code="migration_conflict")


def _half_a_machine(old: _Old) -> Problem:
    why = "not moved: [compute] would need gpu_count, too, and this file does not give it"
    fix = 'gpu_type = "H100:8", with your number of GPUs behind the colon'
    return Problem(old.given.place, old.given.key, why, shown(old.given.value), fix=fix, code="missing")


def _dropped(old: _Old, because: str) -> Problem:
    why = f"deleted, since it had no effect: {because}"
    return Problem(old.given.place, old.given.key, why, shown(old.given.value), level="note", code="dropped")


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
            plan.left.append(_dropped(old, f"{key} = {shown(plan.entries.get(key))} wins"))
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
    return bool(value == now)


def _plan_values(plan: _Plan, literal: Mapping[str, Any], said: Mapping[str, Any]) -> None:
    """Values whose spelling changed."""
    for key, value in said.items():
        now = respelled(key, tidy(key, value))
        if now is None:
            continue
        changed = {new: plan.entries.get(new, UNSET) for new in (key, *now)}
        changed = {new: value for new, value in changed.items() if value is UNSET or value != literal.get(new, UNSET)}
        plan.final |= changed
        if key in literal:
            kept = [new for new in changed if changed[new] is not UNSET]
            plan.moved.append((f"{key} = {shown(value)}", ", ".join(f"{new} = {shown(changed[new])}" for new in kept)))
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


# --- where the lines go


def _relocate(draft: Draft, plan: _Plan) -> None:
    for old, new in plan.targets.items():
        _rename_tables(draft, old, new)
    for path in [block.path for block in draft.blocks]:
        block = next((block for block in draft.blocks if block.path == path), None)
        if block is not None:
            _move_pairs(draft, plan, block)
    for old in (*plan.targets, *plan.drops):
        if lookup(draft.data, old) is not MISSING:
            _move_from_inline(draft, old, plan.targets.get(old))


def _rename_tables(draft: Draft, old: Path, new: Path) -> None:
    """An old key that is a table, or list of tables, with headers."""
    edits = []
    for block in draft.blocks:
        if block.path[: len(old)] == old:
            edits.append((*block.names, _dotted((*new, *block.path[len(old) :]))))
    if edits and not _is_closed(draft, new):
        draft.splice(*edits)


def _move_pairs(draft: Draft, plan: _Plan, block: Block) -> None:
    new_paths = {pair: _new_path(plan, pair) for pair in block.pairs}
    going = {pair: new for pair, new in new_paths.items() if new is not None}
    dropped = [pair for pair in block.pairs if _within(pair, plan.drops) is not None]
    if not going and not dropped:
        return
    path = block.path
    is_old = bool(path) and _dotted(path) not in all_sections() and all(isinstance(part, str) for part in path)
    if is_old and len(going) + len(dropped) == len(block.pairs) and (new := _new_home(draft, path, going)) is not None:
        for pair in dropped:
            draft.remove(pair)
        _rename_section(draft, path, new, going)
        rest = {(*new, *pair[len(path) :]): target for pair, target in going.items() if target[: len(new)] != new}
        _move_lines(draft, rest)
        return
    for pair in dropped:
        draft.remove(pair)
    for pair in [pair for pair, target in going.items() if target[:-1] == path]:
        draft.rename(pair, str(going.pop(pair)[-1]))
    _move_lines(draft, going)
    if is_old:
        _remove_if_empty(draft, path)


def _within(path: Path, olds: Any) -> Path | None:
    """The old key that a path is, or is part of."""
    return next((path[:count] for count in range(len(path), 0, -1) if path[:count] in olds), None)


def _new_path(plan: _Plan, pair: Path) -> Path | None:
    old = _within(pair, plan.targets)
    return None if old is None else (*plan.targets[old], *pair[len(old) :])


def _new_home(draft: Draft, path: Path, going: Mapping[Path, Path]) -> Path | None:
    """A section, not there yet, that takes a key of this one, so that the header can be renamed."""
    for pair, target in going.items():
        new = target[:-1]
        if len(pair) == len(path) + 1 and new and lookup(draft.data, new) is MISSING and not _is_closed(draft, new):
            return new
    return None


def _is_closed(draft: Draft, path: Path) -> bool:
    """Whether a header for this path would reach into an inline table, a dotted key or a value."""
    for count in range(1, len(path) + 1):
        table = path[:count]
        if draft.has_value(table):
            return True
        if any(pair[:count] == table and len(block.path) < count for pair, block in draft.pairs.items()):
            return True
    return False


def _rename_section(draft: Draft, path: Path, new: Path, going: Mapping[Path, Path]) -> None:
    block = next(block for block in draft.blocks if block.path == path)
    edits = [(*block.names, _dotted(new))]
    for pair, target in going.items():
        if target[: len(new)] == new:
            edits.append((draft.marks[pair].key, draft.key_end(pair), _dotted(target[len(new) :])))
    draft.splice(*edits)


def _move_lines(draft: Draft, going: Mapping[Path, Path]) -> None:
    """Pairs of one section, each with the comment on its line and those directly above it."""
    cuts: list[tuple[int, int, str]] = []
    lines = []
    for pair, target in going.items():
        start, end = draft.pair_lines(pair)
        above = draft.above(start)
        if above == 0:  # what stands at the top of a file is about the file
            above = start
        comments = draft.text[above:start]
        tail = draft.text[draft.marks[pair].value_end : end].rstrip()
        if draft.is_blank_before(above):  # one of the blank lines around goes along, or else goes
            if comments:
                comments, above = draft.newline + comments, draft.line_start(above - 1)
            elif draft.is_blank_at(end):
                end = draft.line_end(end)
        cuts.append((max(above, cuts[-1][1] if cuts else 0), end, ""))
        lines.append((target, draft.value_text(pair), comments, tail))
    if cuts:
        draft.splice(*cuts)
    for target, value, comments, tail in lines:
        draft.add(target, value, comments, tail)


def _remove_if_empty(draft: Draft, path: Path) -> None:
    """An old header below which nothing is left; a comment on its line stays, one of two blank lines goes."""
    block = next(block for block in draft.blocks if block.path == path)
    if block.pairs:
        return
    start, end = draft.line_start(block.start), draft.line_end(block.end)
    comment = draft.text[block.end : end].strip()
    if not comment and draft.is_blank_at(end) and (start == 0 or draft.is_blank_before(start)):
        end = draft.line_end(end)
    draft.splice((start, end, comment + draft.newline if comment else ""))


def _move_from_inline(draft: Draft, old: Path, target: Path | None) -> None:
    """An old key in an inline table; the comment on a line that goes stays."""
    text = draft.value_text(old) if draft.has_value(old) else None
    draft.remove(old)
    if target is not None and text is not None:
        draft.add(target, text)
    holder = next((old[:count] for count in range(len(old) - 1, 0, -1) if old[:count] in draft.pairs), None)
    if holder is None or lookup(draft.data, holder) != {} or _dotted(holder) in {*all_sections(), *all_keys()}:
        return
    start, end = draft.pair_lines(holder)
    comment = draft.text[draft.marks[holder].value_end : end].strip()
    draft.splice((start, end, draft.indent(start) + comment + draft.newline if comment else ""))


def _dotted(path: Path) -> str:
    return ".".join(format_key(part) for part in path if isinstance(part, str))
