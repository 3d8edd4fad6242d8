"""Which achievements each environment step unlocked, read by field from what the app reports (CONFIG 6, WIRE 1.5)."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from trainer.taskapp.parse import Step
from trainer.taskapp.reading import Json, count, finite, listing, mapping


@dataclass(frozen=True, slots=True)
class Unlocks:
    """Of one step, or of all steps of a turn."""

    new: tuple[str, ...] = ()  # u_t: newly unlocked, by name
    unnamed: int = 0  # newly unlocked ones of which the app gives the number alone
    counts: Mapping[str, int] = field(default_factory=dict)  # how often each was reached, repeats included
    delta: float = 0.0  # d_t: change of the achievement count

    @property
    def any_new(self) -> bool:
        return bool(self.new or self.unnamed)

    def __bool__(self) -> bool:
        return self.any_new or bool(self.counts) or self.delta != 0


NOTHING = Unlocks()
MOST = 1_000_000  # times that one step can reach an achievement: beyond it is no count


def together(parts: Iterable[Unlocks]) -> Unlocks:
    """The unlocks of several turns as those of one."""
    parts = list(parts)
    counts: Counter[str] = Counter()
    for part in parts:
        counts.update(part.counts)
    return Unlocks(
        new=tuple(dict.fromkeys(name for part in parts for name in part.new)),
        unnamed=sum(part.unnamed for part in parts),
        counts=counts,
        delta=sum(part.delta for part in parts),
    )


def unlocks_of_steps(steps: Sequence[Step]) -> list[Unlocks]:
    """One entry a step. The first source that any step has is that of the whole episode: two would count twice."""
    infos = [step.info for step in steps]
    for has, read in _SOURCES:
        if any(has(info) for info in infos):
            return read(infos)
    return [NOTHING] * len(steps)


def unlocks_of_sample(sample: Json) -> Unlocks:
    """Of one entry of `decision_samples`, which has the fields of either of the first two sources."""
    return _stepwise(sample) if "new_achievements" in sample else _decision(sample)


def _stepwise(source: Json) -> Unlocks:
    reached = source.get("new_achievements")
    names = _names(reached)
    unnamed = 0 if names else count(reached) or 0
    return Unlocks(tuple(dict.fromkeys(names)), unnamed, Counter(names), float(len(names) + unnamed))


def _decision(source: Json) -> Unlocks:
    new, reached = _names(source.get("unique")), _names(source.get("all"))
    delta = finite(source.get("ach_delta"))
    return Unlocks(
        new=tuple(dict.fromkeys(new)),
        unnamed=0 if new else count(source.get("unique_delta")) or 0,
        counts=Counter(new) | Counter(reached),
        delta=float(len(reached)) if reached or delta is None else delta,
    )


def _changes(statuses: Iterable[Mapping[str, Any]]) -> list[Unlocks]:
    """From `achievements_status`, {name: reached or how often}, as it stands after each step."""
    highest: dict[str, float] = {}  # by name, so far
    before: dict[str, float] = {}
    found = []
    for status in statuses:
        now = {name: _level(value) for name, value in status.items()}
        more = {name: level - max(0.0, highest.get(name, 0.0)) for name, level in now.items()}
        found.append(
            Unlocks(
                new=tuple(name for name, level in now.items() if level > 0 and highest.get(name, 0.0) <= 0),
                counts={name: int(min(change, MOST)) for name, change in more.items() if change >= 1},
                delta=sum(level - before.get(name, 0.0) for name, level in now.items()),
            )
        )
        before |= now
        highest |= {name: max(level, highest.get(name, level)) for name, level in now.items()}
    return found


def _level(value: object) -> float:
    return float(value) if isinstance(value, bool) else finite(value) or 0.0


def _names(value: object) -> list[str]:
    return [name for name in listing(value) if isinstance(name, str)]


def _credit(info: Json) -> Json:
    return mapping(mapping(info.get("meta")).get("decision_rewards"))


_SOURCES: tuple[tuple[Callable[[Json], bool], Callable[[Sequence[Json]], list[Unlocks]]], ...] = (
    (
        lambda info: "new_achievements" in mapping(info.get("stepwise")),
        lambda infos: [_stepwise(mapping(info.get("stepwise"))) for info in infos],
    ),
    (lambda info: bool(_credit(info)), lambda infos: [_decision(_credit(info)) for info in infos]),
    (
        lambda info: bool(mapping(info.get("achievements_status"))),
        lambda infos: _changes(mapping(info.get("achievements_status")) for info in infos),
    ),
)
