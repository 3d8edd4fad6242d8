"""What rules and derivations read: the values known so far, and where they were given."""

import copy
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any, Literal

from trainer.config.errors import Place, Problem, shown
from trainer.config.keys import all_keys
from trainer.config.migrate import Entry

Device = Literal["cuda", "cpu"]


class Unusable(Exception):
    """A rule read a key that is missing or has a wrong type; it has its own error, so the rule is skipped."""


@dataclass
class Facts:
    """Values by canonical key. Reading follows: given, else derived, else the schema's default.

    Attributes:
        entries: what was given.
        broken: keys whose value was refused, and required keys that are missing.
        derived: values filled in by `derive`.
        evaluates: whether there is an [evaluation] section.
    """

    file: str
    entries: Mapping[str, Entry]
    broken: set[str]
    evaluates: bool
    device: Device
    gpus: int
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

    def section_given(self, section: str) -> bool:
        return any(key.startswith(f"{section}.") for key in self.entries)

    def place(self, key: str) -> Place:
        entry = self.entries.get(key)
        return Place(self.file) if entry is None else entry.place

    def problem(self, key: str, why: str, **parts: Any) -> Problem:
        """An error about `key`, with its value and place."""
        return Problem(self.place(key), key, why, shown(self[key]), **parts)

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
