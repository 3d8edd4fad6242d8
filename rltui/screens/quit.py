"""Leaving while the open run goes on: what is to become of it."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from rltui.screens.choice import Choice, ChoiceScreen
from rltui.screens.steer import VERBS, loss
from rltui.text import clean


def quit_screen(name: str, status: Mapping[str, Any] | None, verbs: frozenset[str]) -> ChoiceScreen:
    """Gives detach (chosen beforehand), stop or kill, and None for staying."""
    missing = "this run cannot be asked from here"
    choices = [
        Choice("detach", "detach", "the run goes on without the interface"),
        Choice("stop", "stop", VERBS["stop"], "" if "stop" in verbs else missing),
        Choice("kill", "kill", f"ends cancelled at once: {loss(status)}", "" if "kill" in verbs else missing),
    ]
    return ChoiceScreen("Leave", choices, intro=[f"{clean(name, 60)} is {(status or {}).get('state', 'starting')}."])
