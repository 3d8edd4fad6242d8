"""What a run does or waits for now, as a sentence. Pure."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from rltui.cli.progress import duration, state_line
from rltui.text import clean

Status = Mapping[str, Any]
_WAITS = {  # by what is waited for (`for` of WIRE 5.4), `{}`: the words of the run
    "batch": "the learner waits for the {}",
    "straggler": "the learner waits for {}",
    "eval": "the learner waits for {}",
    "policy": "new episodes wait for the {}",
    "judge": "the episodes wait for the {}",
    "sync": "the engine takes the {}",
}
_SENTENCES = ("engine and learner load", "the task app is down")  # words of the run that need no more


def waits(status: Status, now: float | None = None) -> str:
    """'the learner waits for the groups of iteration 2 (5 s)'; "" while it waits for nothing.

    `now`: epoch seconds; None: without how long.
    """
    waiting = status.get("waiting") or {}
    what, on = clean(waiting.get("for") or "", 40), clean(waiting.get("on") or "", 160)
    if not (on or what):
        return ""
    if on.startswith(_SENTENCES) or not what:
        text = on
    elif on and what in _WAITS:
        form = _WAITS[what]
        text = form.format(on.removeprefix("the ") if "the {}" in form else on)
    else:
        text = f"it waits for {on or what}"
    since = waiting.get("since")
    if now is None or not isinstance(since, int | float) or now - since < 1:
        return text
    return f"{text} ({duration(now - since)})"


def doing(status: Status, now: float) -> str:
    """The wait, where there is one that no pause is the reason of; else what it does."""
    if status.get("paused") or not (text := waits(status, now)):
        return state_line({**status, "waiting": None}, now)
    return f"{text}; no sign of life for a minute" if status.get("silent") else text


def held(status: Status) -> bool:
    """Whether it does not go on: paused, silent, or a wait that is far too long."""
    return bool(status.get("paused") or status.get("silent") or status.get("phase") == "waiting")
