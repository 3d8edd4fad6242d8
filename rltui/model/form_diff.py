"""What differs between two configs: as lines of their texts, and key by key with what they resolve to."""

from __future__ import annotations

import difflib
from typing import NamedTuple

from rltui.cli.config.spellings import Document
from rltui.cli.config.values import leaves as resolved_leaves
from rltui.model.form_check import check
from rltui.model.form_merge import changed_leaves
from rltui.model.form_values import shown_value
from trainer.config import ConfigError, Loaded
from trainer.config.draft import EditError
from trainer.config.errors import HIDDEN
from trainer.config.secrets import is_secret, masked
from trainer.config.toml_values import same


class Side(NamedTuple):
    """A key with its two values as they are shown; None: not there."""

    key: str
    left: str | None
    right: str | None


def unified(old: str, new: str, name_old: str, name_new: str) -> list[str]:
    """A unified diff, `***` for what looks like a secret. Empty: no difference that may be shown."""
    before, after = (masked_text(text).splitlines() for text in (old, new))
    return list(difflib.unified_diff(before, after, name_old, name_new, lineterm=""))


def masked_text(text: str) -> str:
    try:
        return Document(text, "config").masked()
    except ConfigError:
        return masked(text)


def sides(old: str, new: str, name_old: str, name_new: str) -> list[Side]:
    """The keys whose values differ: resolved ones where both are valid, else those that the texts give."""
    left, right = check(old, name_old).loaded, check(new, name_new).loaded
    if left is not None and right is not None:
        return _resolved(left, right)
    try:
        changed = changed_leaves(old, new)
    except EditError:
        return []
    return [Side(key, *(_hidden(key, value) for value in pair)) for key, pair in changed.items()]


def _resolved(left: Loaded, right: Loaded) -> list[Side]:
    a, b = (resolved_leaves(loaded.resolved()["values"]) for loaded in (left, right))
    found = []
    for key in dict.fromkeys([*a, *b]):
        one, other = a.get(key), b.get(key)
        if one is not None and other is not None and same(one.value, other.value):
            continue
        texts = (None if leaf is None or leaf.value is None else shown_value(leaf.value) for leaf in (one, other))
        found.append(Side(key, *(_hidden(key, text) for text in texts)))
    return found


def _hidden(key: str, text: str | None) -> str | None:
    return HIDDEN if text is not None and is_secret(key, text.strip("\"'")) else text
