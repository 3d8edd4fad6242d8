"""What a run does or waits for now, as a sentence. Pure."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from rltui.text import clean
from rltui.words import duration

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
    return text if now is None else f"{text}{_since(waiting, now)}"


def doing(status: Status | None, now: float) -> str:
    """What it does, or the wait where there is one that no pause is the reason of: 'learning', 'the learner waits for
    the groups of iteration 2 (5 s)'."""
    if not status:
        return "starting"
    phase, state, paused = str(status.get("phase") or ""), str(status.get("state") or "starting"), status.get("paused")
    text = phase if state == "running" and phase else state
    if paused:
        text = f"paused: {paused.get('reason')}{_asker(paused.get('by') or {})}{_since(paused, now)}"
    elif waiting := waits(status, now):
        text = waiting
    elif text == "training":
        text = _training(status.get("pipeline") or {})
    elif state == "starting" and phase not in ("", "starting", "queued"):
        text = f"starting: {phase}"
    return clean(f"{text}; no sign of life for a minute" if status.get("silent") else text, 200)


def held(status: Status) -> bool:
    """Whether it does not go on: paused, silent, or a wait that is far too long."""
    return bool(status.get("paused") or status.get("silent") or status.get("phase") == "waiting")


def _training(pipeline: Mapping[str, Any]) -> str:
    """What of an iteration goes on: it is short words that a person sees change."""
    if pipeline.get("sync") not in (None, "idle"):
        return "syncing weights"
    return "learning" if pipeline.get("learner") == "busy" else "playing episodes"


def _asker(by: Mapping[str, Any]) -> str:
    """' by ann@gpu7'; of a request through a job server what its client calls itself."""
    name = f"{by['user']}@{by.get('host')}" if by.get("user") else by.get("client")
    return f" by {clean(name, 80)}" if name else ""


def _since(block: Mapping[str, Any], now: float) -> str:
    since = block.get("since")
    if not isinstance(since, int | float) or now - since < 1:
        return ""
    return f" ({duration(now - since)})"
