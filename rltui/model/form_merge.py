"""Two changes of one file become one: values that one side changed are set in what the other side made of it."""

from __future__ import annotations

from dataclasses import dataclass

from trainer.config.draft import Draft, EditError
from trainer.config.edit import BOM, UNSET, Raw, edit
from trainer.config.toml_values import join_key

Leaves = dict[str, str]  # by dotted key the text of its value


@dataclass(frozen=True)
class Merged:
    """
    Attributes:
        text: theirs with what is changed in mine; where both changed a key, mine.
        changed: keys that mine changes.
        conflicts: those among them that theirs changes to something else.
    """

    text: str
    changed: list[str]
    conflicts: list[str]


def leaves(text: str) -> Leaves:
    """EditError: the text is no TOML, or has lists of tables, whose parts have no names to go by."""
    draft = Draft(text.removeprefix(BOM))
    found = {}
    for path in draft.pairs:
        if not all(isinstance(part, str) for part in path):
            raise EditError("it has lists of tables")
        found[join_key(str(part) for part in path)] = draft.value_text(path)
    return found


def changed_leaves(old: str, new: str) -> dict[str, tuple[str | None, str | None]]:
    """(before, after) by key, None where it is not there. EditError as in `leaves`."""
    before, after = leaves(old), leaves(new)
    keys = dict.fromkeys([*before, *after])
    return {key: (before.get(key), after.get(key)) for key in keys if before.get(key) != after.get(key)}


def merge(base: str, mine: str, theirs: str) -> Merged:
    """Three texts of one file. EditError: mine changes more than values, or one of them is no TOML."""
    own, other = changed_leaves(base, mine), changed_leaves(base, theirs)
    changes = {key: UNSET if after is None else Raw(after) for key, (_, after) in own.items()}
    if edit(base, changes) != mine and mine != base:
        raise EditError("what you changed is more than values (comments, or the order of lines)")
    conflicts = [key for key in own if key in other and own[key] != other[key]]
    return Merged(edit(theirs, changes), list(own), conflicts)
