"""The questions of the screen: who plays, which app, whether a file may be changed."""

from __future__ import annotations

import os
from pathlib import Path

from rltui.screens.choice import Choice, ChoiceScreen
from rltui.screens.confirm import Answer, ConfirmScreen
from rltui.smoke.asked import Asked
from rltui.smoke.policies.presets import OWN_KEY, PRESETS
from trainer.taskapp.registry import BUILTIN

OTHER = "other"
ABOUT_APPS = {
    "guess": "find a number by too high and too low: several turns, needs no package",
    "facts": "answer a short question in few words: one turn, needs no package",
}


def policy_screen(asked: Asked) -> ChoiceScreen:
    """Gives a value of smoke.policy, or OTHER for an address that is typed."""
    no_config = "" if asked.config is not None else "it plays with the model of a config: open one with t"
    choices = [
        Choice("mock", "mock", "random valid answers: tests the plumbing alone"),
        Choice("scripted", "scripted", "the same answers in every episode"),
        Choice("self", "self", "the config's own model, as the first iteration would play", no_config),
        Choice("human", "human", "you: each call waits for your reply"),
    ]
    for name, preset in PRESETS.items():
        missing = "" if os.environ.get(preset.key_name) else f"set {preset.key_name} first"
        choices.append(Choice(name, name, f"{preset.model}; its calls cost money", missing))
    choices.append(Choice(OTHER, "endpoint", f"any OpenAI-compatible address (its key: {OWN_KEY})"))
    values = [choice.value for choice in choices]
    cursor = values.index(asked.policy) if asked.policy in values else 0
    return ChoiceScreen("Who plays", choices, cursor=cursor)


def app_screen() -> ChoiceScreen:
    """Gives the value of task_url of a built-in app, or OTHER for one that is typed."""
    choices = [Choice(f"builtin:{name}", name, ABOUT_APPS.get(name, "")) for name in sorted(BUILTIN)]
    choices.append(Choice(OTHER, "another", "a FILE.py, ADAPTER:DATASET such as reasoning_gym:gcd, or an address"))
    return ChoiceScreen("Task app", choices, intro=["It is started for the test, and stopped with it."])


def group_size_screen(path: Path, old: int, new: int) -> ConfirmScreen:
    """Gives write, or None."""
    intro = [f"training.group_size = {old} becomes {new} in {path}", "All else in the file stays as it is."]
    return ConfirmScreen("Change the config", intro, [Answer("y", "write", "write it")])
