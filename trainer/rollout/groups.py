"""Groups: all members of one task seed, whole or replaced (CONFIG 3). Pure."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, field

from trainer.rewards.advantages import GroupAdvantages
from trainer.rollout.episode import Assignment, Episode, Exclusion
from trainer.taskapp.codes import clean, sentence


class TooManyExcluded(RuntimeError):
    """The run cannot go on with survivors only. The text names the reasons and one example."""


@dataclass(slots=True)
class Group:
    """Episodes of one seed, in member order.

    Attributes:
        index: counted since the run began; a replacement has a number of its own.
        iteration: the one it was started for. A later batch may take it, if others were ready first.
        replaces: the group that was dropped in its place.
        refills: the dead groups in whose place it was played, the first one first.
        advantages: once all members have their reward.
        oldest: updates contained in the weights of its oldest token.
    """

    index: int
    seed: int
    members: list[Episode]
    iteration: int = 1
    replaces: int | None = None
    refills: list[int] = field(default_factory=list)
    advantages: GroupAdvantages | None = None
    oldest: int = 0


@dataclass(slots=True)
class LiveGroup:
    """A group whose members are being played; one entry a member."""

    index: int
    seed: int
    iteration: int
    members: list[Episode | None]
    oldest: list[int | None]  # updates contained in the weights of its oldest token; None: not begun
    replaces: int | None = None
    refills: list[int] = field(default_factory=list)

    @classmethod
    def of(cls, size: int, index: int, seed: int, iteration: int) -> LiveGroup:
        return cls(index, seed, iteration, [None] * size, [None] * size)

    def oldest_updates(self, served: int) -> int:
        """Updates contained in the weights of its oldest token; where none was sampled, in those `served` now."""
        return min((o for o in self.oldest if o is not None), default=served)

    def assignment(self, member: int, replay: int) -> Assignment:
        return Assignment("train", self.iteration, self.index, member, self.seed, replay)

    def whole(self) -> Group | None:
        """Once every member was played, whatever became of it."""
        members = [member for member in self.members if member is not None]
        if len(members) < len(self.members):
            return None
        oldest = min(o for o in self.oldest if o is not None)
        return Group(self.index, self.seed, members, self.iteration, self.replaces, self.refills, oldest=oldest)


@dataclass(slots=True)
class Tally:
    """What was lost since the batch before closed."""

    excluded: Counter[str] = field(default_factory=Counter)  # episodes, by code
    dropped_groups: int = 0
    refilled_groups: int = 0


@dataclass(slots=True)
class Losses:
    """Excluded episodes that were started for one iteration."""

    count: Counter[str] = field(default_factory=Counter)  # by code
    first: dict[str, Exclusion] = field(default_factory=dict)  # of each code

    def add(self, exclusion: Exclusion) -> None:
        self.count[exclusion.code] += 1
        self.first.setdefault(exclusion.code, exclusion)

    def told(self) -> str:
        """The reasons as sentences, the most common one first."""
        times = {code: "once" if number == 1 else f"{number} times" for code, number in self.count.most_common()}
        return "; ".join(f"{often}: {sentence(code, self.first[code].detail)}" for code, often in times.items())


def check_share(losses: Losses, example: Episode, *, episodes: int, limit: float) -> None:
    """Raises TooManyExcluded when more than `limit` of an iteration's `episodes` (E) are lost.

    Args:
        example: the last one of `losses`.
    """
    lost = losses.count.total()
    if lost <= limit * episodes:
        return
    evidence = clean(example.exclusion.evidence, 300) if example.exclusion else ""
    raise TooManyExcluded(
        f"{lost} of {episodes} episodes of iteration {example.assignment.iteration} were excluded, "
        f"more than rollout.max_excluded_fraction = {limit:g} allows ({losses.told()}); "
        f"for example {example.cid}{': ' if evidence else ''}{evidence}"
    )
