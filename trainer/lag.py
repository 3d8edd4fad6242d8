"""How old the weights behind a token are, in optimizer updates. Pure."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

from trainer.rollout.episode import Episode
from trainer.rollout.groups import Group


class Contained:
    """How many optimizer updates each weight version contains: version -> w (WIRE 2.6)."""

    def __init__(self, version: int = 0, updates: int = 0) -> None:
        self._updates = {version: updates}

    def note(self, version: int, updates: int) -> None:
        """To be said before the engine is sent `version`: it may sample from it before it confirms it."""
        self._updates[version] = updates

    def __getitem__(self, version: int) -> int:
        return self._updates[version]

    def oldest(self, episode: Episode) -> int:
        """Updates contained in the weights of the oldest token that is trained on."""
        versions = {span.weight_version for branch in episode.branches for span in branch.spans}
        return min(self._updates[version] for version in versions)


@dataclass(frozen=True, slots=True)
class Lags:
    """Lag of each episode of a batch as it closes, by row: updates done minus updates of its oldest token."""

    of: dict[int, int]
    limit: int | None  # max_lag; None: weights are not synced, so there is none

    @classmethod
    def at_close(cls, groups: Iterable[Group], contained: Contained, step: int, limit: int | None) -> Lags:
        return cls({m.n: step - contained.oldest(m) for group in groups for m in group.members}, limit)

    def is_past_limit(self, n: int) -> bool:
        return self.limit is not None and self.of[n] > self.limit

    @property
    def mean(self) -> float:
        return sum(self.of.values()) / len(self.of)

    @property
    def max(self) -> int:
        return max(self.of.values())

    def among(self, members: Iterable[Episode]) -> Lags:
        return Lags({member.n: self.of[member.n] for member in members}, self.limit)
