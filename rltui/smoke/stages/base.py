"""What a stage is: a check with an id, what it needs, and what it found."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Iterable
from dataclasses import dataclass, field

from rltui.smoke.bench import Bench
from rltui.smoke.report import StageVerdict


@dataclass(frozen=True, slots=True)
class Found:
    """fix: what its author, or the config's, is to do."""

    verdict: StageVerdict
    message: str
    fix: str = ""
    notes: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class Check:
    """needs: ids of stages without whose success it says nothing. limit_s: None where its parts have limits."""

    id: str
    title: str
    needs: tuple[str, ...]
    limit_s: float | None
    run: Callable[[Bench], Awaitable[Found]]


def skipped(why: str) -> Found:
    return Found("skipped", why)


@dataclass(slots=True)
class Findings:
    """Collects what one stage finds; the worst of it is the stage's message."""

    notes: list[str] = field(default_factory=list)
    warnings: list[tuple[str, str]] = field(default_factory=list)
    failures: list[tuple[str, str]] = field(default_factory=list)

    def note(self, *texts: str) -> None:
        self.notes += texts

    def warn(self, message: str, fix: str) -> None:
        self.warnings.append((message, fix))

    def fail(self, message: str, fix: str) -> None:
        self.failures.append((message, fix))

    def found(self, message: str) -> Found:
        """message: what is said if all is well, and noted otherwise."""
        worst = [*self.failures, *self.warnings]
        if not worst:
            return Found("ok", message, "", tuple(self.notes))
        rest = [f"{text}: {fix}" if fix else text for text, fix in worst[1:]]
        verdict: StageVerdict = "fail" if self.failures else "warn"
        told = [message] if message else []
        return Found(verdict, *worst[0], notes=(*rest, *told, *self.notes))


def counted(number: int, what: str) -> str:
    """`1 call`, `2 calls`"""
    return f"{number} {what}{'s' * (number != 1)}"


def listed(numbers: Iterable[object], most: int = 6) -> str:
    """`1, 2, 3, … (12)`"""
    items = [str(number) for number in numbers]
    return ", ".join(items[:most]) + (f", … ({len(items)})" if len(items) > most else "")
