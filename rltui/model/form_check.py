"""What the loader says of a config's text, for the form: problems, derived numbers, or where it is no TOML.

It takes milliseconds and reads no more than the loader does, yet belongs in a thread: typing waits for nothing.
"""

from __future__ import annotations

import time
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any

from rltui.cli.configs import cannot_run
from rltui.cli.task_apps import start_problems, warnings_of
from rltui.model.estimates import NOTHING, Facts, Line, of
from rltui.model.known import known
from trainer.config import ConfigError, Loaded, Problem, load_text
from trainer.config.edit import BOM


@dataclass(frozen=True)
class Checked:
    """A text and what is known of it.

    Attributes:
        problems: errors, warnings and notes, in the order of the file.
        loaded: the config, if it is valid.
        broken: why the text is no TOML; then nothing else is known.
        missing: required keys that are not given.
        numbers: what follows from the values; empty unless the config is valid.
        derived: values that follow from others, by key, where it is not.
        refused: why a run of a valid config would not start; empty where it would.
    """

    text: str
    problems: tuple[Problem, ...] = ()
    loaded: Loaded | None = None
    broken: Problem | None = None
    missing: tuple[str, ...] = ()
    numbers: tuple[Line, ...] = ()
    derived: Mapping[str, Any] = field(default_factory=dict)
    refused: str = ""

    @property
    def errors(self) -> list[Problem]:
        return [problem for problem in self.problems if problem.level == "error"]


def check(text: str, name: str) -> Checked:
    """`name`: the file's, as it stands in problems; its folder is the config's."""
    try:
        loaded = load_text(text.removeprefix(BOM), name)
    except ConfigError as error:
        first = error.problems[0]
        if first.code == "syntax":
            return Checked(text, (first,), broken=first)
        missing = tuple(_missing(error.problems))
        return Checked(text, (*error.problems, *error.warnings), missing=missing, derived=error.derived)
    refusals = start_problems(loaded)
    problems = tuple(warnings_of(loaded, refusals))
    return Checked(text, problems, loaded, numbers=_numbers(loaded), refused=cannot_run(refusals))


def _missing(problems: list[Problem]) -> Iterator[str]:
    for problem in problems:
        if problem.code == "missing":
            yield from (name.strip() for name in problem.why.partition(": ")[2].split(","))


KNOWN_S = 30.0  # facts about models, past runs and the disk are read again after that
_facts: dict[tuple[str | None, str, str | None], tuple[float, Facts]] = {}


def _numbers(loaded: Loaded) -> tuple[Line, ...]:
    """What follows from the values, with what this machine knows of the model."""
    config = loaded.config
    key = (config.policy.model_name, config.logging.runs_dir, config.checkpoint.dir)
    now = time.monotonic()
    at, facts = _facts.get(key, (now - 2 * KNOWN_S, NOTHING))
    if now - at > KNOWN_S:
        facts = known(loaded)
        _facts.clear()
        _facts[key] = (now, facts)
    return tuple(of(loaded, facts))
