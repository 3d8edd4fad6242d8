"""What rules and derivations read: the values known so far, and where they were given."""

import copy
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any, Literal

from trainer.config.errors import Place, Problem, shown
from trainer.config.keys import all_keys
from trainer.config.machine import NO_GPUS, Machine
from trainer.config.migrate import Entry

Device = Literal["cuda", "cpu"]


class Unusable(Exception):
    """A rule read a key that is missing or has a wrong type; it has its own error, so the rule is skipped."""


@dataclass
class Facts:
    """Values by canonical key. Reading follows: given, else derived, else the schema's default.

    Attributes:
        entries: what was given.
        broken: keys whose value was refused, required keys that are missing, and what would follow from these.
        derived: values filled in by `derive`.
        evaluates: whether there is an [evaluation] section.
        device: what the run computes on.
        machine: the GPUs of where it will be.
        variables: names of the environment's variables that are not empty. No values: they may be secrets.
        model_limit: the model's context limit in tokens, once it is known.
    """

    file: str
    entries: Mapping[str, Entry]
    broken: set[str]
    evaluates: bool
    device: Device
    machine: Machine = NO_GPUS
    variables: frozenset[str] = frozenset()
    model_limit: int | None = None
    derived: dict[str, Any] = field(default_factory=dict)

    def __getitem__(self, key: str) -> Any:
        if key in self.broken:
            raise Unusable(key)
        if key in self.derived:
            return self.derived[key]
        if key in self.entries:
            return self.entries[key].value
        if all_keys()[key].required:
            raise Unusable(key)
        return copy.copy(all_keys()[key].default)

    def given(self, key: str) -> bool:
        return key in self.entries and key not in self.broken

    @property
    def gpus(self) -> int:
        """GPUs that were found; 0 where that is not known, too."""
        return self.machine.gpus or 0

    @property
    def runs_local_engine(self) -> bool:
        engine = self["inference.engine"]
        return engine == "local" or (engine == "auto" and self.device == "cpu")

    def place(self, key: str) -> Place:
        entry = self.entries.get(key)
        return Place(self.file) if entry is None else entry.place

    def problem(self, key: str, why: str, **parts: Any) -> Problem:
        """An error about `key`, with its value and place. What was given is shown, not what is made of it."""
        value: str | None = None
        if key in self.entries:
            value = self.entries[key].shown
        elif self[key] is not None:
            value = shown(self[key])
        return Problem(self.place(key), key, why, value, **parts)

    def warning(self, key: str, why: str, **parts: Any) -> Problem:
        return self.problem(key, why, **{"level": "warning"} | parts)

    def note(self, key: str, why: str, **parts: Any) -> Problem:
        return self.problem(key, why, **{"level": "note"} | parts)

    def collect(self, rules: Iterable[Callable[["Facts"], Iterable[Problem]]]) -> list[Problem]:
        problems: list[Problem] = []
        for rule in rules:
            try:
                problems += rule(self)
            except Unusable:
                continue
        return problems
