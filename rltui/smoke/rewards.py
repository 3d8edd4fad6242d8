"""From an app's answer to R, by the run's own rules: the seam to `trainer.rewards`."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from rltui.smoke.report import Episode
from trainer.rewards.advantages import group_advantages
from trainer.rewards.episode import EpisodeReward, reward_of
from trainer.rewards.rules import RewardRules
from trainer.taskapp.parse import ParsedRollout


def resolved(parsed: ParsedRollout, calls: int, rules: RewardRules) -> EpisodeReward:
    """Of an episode with that many model calls. Raises RolloutFailure as a run would exclude it."""
    return reward_of(parsed, calls, rules)


def with_advantages(group: Sequence[Episode], size: int, std: bool) -> list[Episode]:
    """The members of one seed with their A; a group that lacks a member, or is dead, gets none."""
    rewards = [episode.R for episode in group if episode.R is not None]
    if len(rewards) < size or size < 2:
        return list(group)
    found = group_advantages(rewards, std)
    if found.dead:
        return list(group)
    return [replace(episode, A=float(a)) for episode, a in zip(group, found.advantages, strict=True)]
