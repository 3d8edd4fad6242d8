"""Which rules name a key as what to change."""

from __future__ import annotations

from functools import cache

from rltui.doctor.rules import RULES


@cache
def watched_by(key: str) -> tuple[str, ...]:
    """The ids of the rules, in their order; empty: none."""
    return tuple(rule.id for rule in RULES if key in rule.keys)
