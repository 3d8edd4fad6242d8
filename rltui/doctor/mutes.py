"""Rules that a person wants to hear no more of in one run, with the reason, kept in the memory of places."""

from __future__ import annotations

from rltui.doctor.rules import RULES
from rltui.state import Memory
from rltui.text import clean

MOST = 120  # characters of a reason


def muted(memory: Memory, run: str) -> dict[str, str]:
    """Reasons by rule. `run`: its job id, or its path."""
    place = memory.of(run)
    found = {rule.id: place.get(_name(rule.id)) for rule in RULES}
    return {id: clean(reason, MOST) for id, reason in found.items() if isinstance(reason, str) and reason}


def mute(memory: Memory, run: str, id: str, reason: str) -> dict[str, str]:
    """Mute a rule, or let it speak again with reason "". Gives the reasons that hold from now on."""
    memory.keep(run, **{_name(id): clean(reason, MOST)})
    memory.save()
    return muted(memory, run)


def _name(id: str) -> str:
    return f"mute_{id}"
