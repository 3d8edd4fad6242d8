"""Asking a run for something: the verbs, what each costs, and why one cannot be asked for now."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from rltui.screens.choice import Choice, ChoiceScreen
from rltui.screens.confirm import Answer, ConfirmScreen
from rltui.sources.base import TERMINAL
from rltui.text import clean
from rltui.widgets.notice import Level

if TYPE_CHECKING:
    from rltui.model.steering import Request, Steering

Status = Mapping[str, Any]
VERBS = {
    "pause": "holds between two steps; the engine goes on serving",
    "resume": "goes on after a pause",
    "stop": "ends cancelled after this step, with a checkpoint",
    "kill": "ends cancelled at once, without a checkpoint",
    "checkpoint": "saves one at the end of this iteration",
    "evaluate": "plays an evaluation at the end of this iteration",
    "set": "changes a live key of the config",
}
LEVELS: dict[str, Level] = {
    "asked": "info",
    "accepted": "info",
    "done": "good",
    "refused": "act",
    "failed": "act",
    "unanswered": "watch",
}


def verbs(status: Status | None, steering: Steering, readonly: bool) -> list[Choice]:
    """All seven verbs; one that cannot be asked for says why."""
    told = {**VERBS, "checkpoint": "saves one now"} if (status or {}).get("state") == "paused" else VERBS
    return [Choice(verb, verb, about, why_not(verb, status, steering, readonly)) for verb, about in told.items()]


def why_not(verb: str, status: Status | None, steering: Steering, readonly: bool) -> str:
    """The reason for which a verb cannot be asked for; "" if it can."""
    state = (status or {}).get("state")
    if readonly:
        return "the interface was started with --readonly"
    if state in TERMINAL:
        return f"the run has ended: {state}"
    if reason := steering.why_not(verb):
        return reason
    paused = state == "paused"
    if verb == "pause" and paused:
        return "it is paused already"
    if verb == "evaluate" and paused:
        return "the run is paused: resume it first"
    if verb == "checkpoint" and paused and ((status or {}).get("paused") or {}).get("reason") == "disk_full":
        return "the disk is full"
    if verb == "resume" and not paused:
        return "it is not paused"
    return "it is stopping already" if verb == "stop" and state == "stopping" else ""


def ended(name: str, state: str) -> str:
    """What is said instead of the verbs, of a run that takes none any more."""
    if state == "succeeded":
        return f"the run has ended: {state}"
    return f"the run has ended: {state}; rltui train --resume {clean(name, 60)} goes on from its last checkpoint"


def steer_screen(name: str, status: Status | None, steering: Steering, readonly: bool) -> ChoiceScreen:
    """Gives the verb that was chosen."""
    choices = verbs(status, steering, readonly)
    first = next((i for i, choice in enumerate(choices) if not choice.why_not), 0)
    return ChoiceScreen(f"Steer {clean(name, 50)}", choices, cursor=first)


def kill_screen(name: str, status: Status | None) -> ConfirmScreen:
    """Asks before what cannot be taken back; gives "kill"."""
    answers = [Answer("k", "kill", f"kill it: {loss(status)}", danger=True)]
    return ConfirmScreen("Kill", [f"{clean(name, 60)} ends at once, without a checkpoint."], answers)


def loss(status: Status | None) -> str:
    """What a kill loses, in words."""
    status = status or {}
    step = status.get("step") or 0
    reached = (status.get("last_checkpoint") or {}).get("step")
    if reached is None:
        return f"all {step} steps are lost, there is no checkpoint" if step else "no step is done yet"
    lost = max(0, step - reached)
    return f"{lost} step{'' if lost == 1 else 's'} since checkpoint step_{reached} {'is' if lost == 1 else 'are'} lost"


def told(request: Request) -> tuple[str, Level]:
    """(words, level) of how far a request has come; nothing is claimed before the run says it."""
    detail = f": {clean(request.detail, 160)}" if request.detail else ""
    words = {
        "asked": f"{request.action} asked",
        "accepted": f"{request.action} accepted",
        "done": f"{request.action} done",
        "unanswered": f"{request.action}: no answer for 10 s",
    }.get(request.state, f"{request.action} {request.state}{detail}")
    return words, LEVELS.get(request.state, "watch")
