"""What is wrong with a config, and how it is said (CONFIG section 1, "Error format")."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any, Literal

from trainer.config.toml_values import format_value

Level = Literal["error", "warning", "note"]
HIDDEN = "***"


@dataclass(frozen=True, slots=True)
class Place:
    """Where a value was given: a file with line and column (from 1), or a named source such as `--set`."""

    file: str
    line: int | None = None
    column: int | None = None

    def __str__(self) -> str:
        return self.file if self.line is None else f"{self.file}:{self.line}:{self.column}"


@dataclass(frozen=True, slots=True)
class Problem:
    """One error, warning or note about one key.

    `value` is the given value as TOML text: it is text so that a secret is dropped where it is found and
    cannot be printed later. It is None when there is no value to show.
    """

    place: Place
    key: str
    why: str
    value: str | None = None
    allowed: str | None = None
    fix: str | None = None
    level: Level = "error"
    code: str = "invalid"

    @property
    def file(self) -> str:
        return self.place.file

    @property
    def line(self) -> int | None:
        return self.place.line

    @property
    def column(self) -> int | None:
        return self.place.column

    def as_dict(self) -> dict[str, Any]:
        """The fields that `rltui validate --json` and the job server print."""
        return {
            "file": self.file,
            "line": self.line,
            "column": self.column,
            "key": self.key,
            "value": self.value,
            "why": self.why,
            "allowed": self.allowed,
            "fix": self.fix,
            "level": self.level,
            "code": self.code,
        }

    def __str__(self) -> str:
        head = f"{self.place}: "
        if self.level != "error":
            head += f"{self.level}: "
        if self.key:
            head += self.key if self.value is None else f"{self.key} = {self.value}"
            lines = [head, *self.why.splitlines()]
        else:
            first, *rest = self.why.splitlines()
            lines = [head + first, *rest]
        if self.allowed:
            lines.append(f"allowed: {self.allowed}")
        if self.fix:
            lines += f"fix: {self.fix}".splitlines()
        return "\n  ".join(lines)


class ConfigError(ValueError):
    """Everything that is wrong with one config, sorted by position. `str()` is the full text."""

    exit_code = 2

    def __init__(self, problems: Iterable[Problem]):
        self.problems: list[Problem] = sorted(problems, key=_position)
        super().__init__("\n".join(str(problem) for problem in self.problems))


def _position(problem: Problem) -> tuple[bool, str, int, int]:
    """Problems with a line come first, in the order of the file; those of no line follow."""
    return (problem.line is None, problem.file, problem.line or 0, problem.column or 0)


def shown(value: Any, limit: int = 80) -> str:
    """A given value as one short line of TOML."""
    text = format_value(value)
    return text if len(text) <= limit else text[: limit - 3] + "..."


def render(problems: Sequence[Problem]) -> str:
    """Warnings and notes for a console: moved keys as one block per old section, the others as they are."""
    moved = [problem for problem in problems if problem.code == "migrated"]
    blocks: dict[str, list[Problem]] = {}
    for problem in moved:
        blocks.setdefault(problem.key.rpartition(".")[0] or problem.key, []).append(problem)
    lines = []
    for section, members in blocks.items():
        lines.append(f"{members[0].place}: warning: [{section}] holds old spellings; they still work")
        lines += [f"  {problem.fix}" for problem in members]
    lines += [str(problem) for problem in problems if problem.code != "migrated"]
    return "\n".join(lines)
