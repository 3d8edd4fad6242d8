"""What is wrong with a config, and how it is said (CONFIG section 1, "Error format")."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
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

    def sentence(self) -> str:
        """The same in running text."""
        head = f"{self.key} = {self.value}" if self.value is not None else self.key or "the config"
        text = f"{head} ({self.place}) cannot be used: {'; '.join(self.why.splitlines())}."
        if self.allowed:
            text += f" Allowed is {self.allowed}."
        if self.fix:
            text += f" To mend it: {'; '.join(line.strip() for line in self.fix.splitlines())}."
        return text

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
    """Everything that is wrong with one config, sorted by position.

    Attributes:
        problems: the errors; `str()` is their full text.
        warnings: warnings and notes about the same config.
        derived: what follows, by key, from the values that are right; empty where the loader did not come so far.
    """

    exit_code = 2

    def __init__(
        self, problems: Iterable[Problem], *, in_sentences: bool = False, derived: Mapping[str, Any] | None = None
    ):
        """`in_sentences`: for a place that has one paragraph, such as the cause of a run's end."""
        self.derived = dict(derived or {})
        found = sorted(problems, key=by_position)
        self.problems = [problem for problem in found if problem.level == "error"]
        self.warnings = [problem for problem in found if problem.level != "error"]
        told = [problem.sentence() if in_sentences else str(problem) for problem in self.problems]
        super().__init__(" ".join(told) if in_sentences else "\n".join(told))


def by_position(problem: Problem) -> tuple[bool, str, int, int]:
    """Problems with a line come first, in the order of the file; those of no line follow."""
    return (problem.line is None, problem.file, problem.line or 0, problem.column or 0)


def shown(value: Any, limit: int = 80) -> str:
    """A given value as one short line of TOML."""
    return cut(format_value(value), limit)


def cut(text: str, limit: int = 80) -> str:
    return text if len(text) <= limit else text[: limit - 3] + "..."


def render(problems: Sequence[Problem]) -> str:
    """Problems for a console, sorted by position. Moved keys are one block per old section, at its first line."""
    blocks: dict[str, list[str]] = {}
    texts: list[list[str]] = []
    for problem in sorted(problems, key=by_position):
        if problem.code != "migrated":
            texts.append([str(problem)])
            continue
        section = problem.key.rpartition(".")[0] or problem.key
        if section not in blocks:
            blocks[section] = [f"{problem.place}: warning: [{section}] holds old spellings; they still work"]
            texts.append(blocks[section])
        blocks[section].append(f"  {problem.fix}")
    return "\n".join(line for lines in texts for line in lines)
