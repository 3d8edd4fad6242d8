"""The batch arithmetic of a run (CONFIG 3), as the dispatcher needs it."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from trainer.config import RunConfig


@dataclass(frozen=True, slots=True)
class Sizes:
    """The batch arithmetic, and what an iteration may lose."""

    episodes: int  # E
    steps: int  # m
    size: int  # G
    iterations: int
    max_refill_groups: int = 0
    max_excluded_fraction: float = 1.0
    timeout_s: float = 600.0  # a straggler is waited for until it is that old

    @classmethod
    def of(cls, config: RunConfig, derived: Mapping[str, int]) -> Sizes:
        rollout = config.rollout
        return cls(
            episodes=derived["E"],
            steps=derived["m"],
            size=config.training.group_size,
            iterations=derived["iterations"],
            max_refill_groups=rollout.max_refill_groups,
            max_excluded_fraction=rollout.max_excluded_fraction,
            timeout_s=rollout.timeout_s,
        )

    @property
    def groups(self) -> int:
        return self.episodes // self.size
