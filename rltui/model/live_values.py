"""What `set` is to change in a running run, from the words of a person."""

from __future__ import annotations

import re
from collections.abc import Sequence
from math import isfinite

from rltui.sources.base import Json
from rltui.text import clean


def assignments(text: str) -> list[str]:
    """The words of one line: `KEY VALUE`, or `KEY=VALUE`, several of them; after `set`, as the example has it, too."""
    text = re.sub(r"^set\s+(?!=)", "", text.strip())
    words = re.sub(r"\s*=\s*", "=", text).split()
    return words if not words or "=" in words[0] else text.split(maxsplit=1)


def live_values(words: Sequence[str]) -> Json:
    """By full key. Takes a while the first time.

    Raises:
        ValueError: no assignment, or a key that a running run keeps; the text says what to give.
    """
    from trainer.config.differ import live_keys  # pydantic: only where it is needed
    from trainer.config.toml_values import parse_value

    pairs = [word.partition("=") for word in words]
    if len(words) == 2 and not pairs[0][1]:
        pairs = [(words[0], "=", words[1])]
    if not pairs or not all(equals for _, equals, _ in pairs):
        raise ValueError("set wants KEY VALUE, or KEY=VALUE, for example: set training.learning_rate 1e-5")
    known, values = live_keys(), {}
    for name, _, text in pairs:
        name = name.strip()
        fits = [key for key in known if name in (key, key.rpartition(".")[2])]
        if len(fits) != 1:
            what = "is not one key" if fits else "cannot be changed while a run is going"
            raise ValueError(f"{clean(name, 100)!a} {what}; give one of {', '.join(fits or known)}")
        try:
            values[fits[0]] = parse_value(text)
        except ValueError as error:
            raise ValueError(f"{fits[0]}: {error}") from None
        if isinstance(values[fits[0]], float) and not isfinite(values[fits[0]]):
            raise ValueError(f"{fits[0]} = {clean(text.strip(), 100)} is no finite number")  # and none of JSON
    _check(values)
    return values


def _check(values: Json) -> None:
    """ValueError: a value that no run would take, whatever its other keys are."""
    from trainer.config.check import type_problems
    from trainer.config.migrate import migrate
    from trainer.config.sources import from_overrides

    entries, _ = migrate(from_overrides(values))
    for problem in type_problems({entry.key: entry for entry in entries})[0]:
        raise ValueError(f"{problem.key} = {problem.value}: {problem.why}; allowed: {problem.allowed}")
