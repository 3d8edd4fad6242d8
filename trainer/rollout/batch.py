"""From groups to what one optimizer update learns from. Pure."""

from __future__ import annotations

import random
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from numpy.typing import NDArray

from trainer.config.schema import TrainingConfig
from trainer.lag import Lags
from trainer.learner.protocol import AnchorResult, take_anchor
from trainer.learner.protocol import Sequence as TrainSequence
from trainer.rewards.advantages import GroupAdvantages
from trainer.rewards.episode import turn_rewards
from trainer.rollout.episode import TRUNCATED, Episode
from trainer.rollout.groups import Group
from trainer.rollout.trajectories import token_temperatures
from trainer.rollout.types import Branch


@dataclass(frozen=True, slots=True)
class Masked:
    """An episode, or one branch of it, left out after advantages; its group's mean and std stay (WIRE 1.6, stage a)."""

    episode: Episode
    code: str
    detail: dict[str, Any]
    branch: int | None = None  # None: all of them


@dataclass(slots=True)
class Update:
    """One optimizer update. Members of dead groups are in neither list: they carry no gradient."""

    members: Sequence[Episode]
    sequences: list[TrainSequence] = field(default_factory=list)
    masked: list[Masked] = field(default_factory=list)

    def take_anchor(self, result: AnchorResult) -> None:
        """Sequences get their proximal log-probabilities; those outside the proximal mask are left out."""
        self.sequences, out = take_anchor(self.sequences, result)
        rows = {member.n: member for member in self.members}
        for item in out:
            detail = {"ratio": round(item.prox, 4), "low": round(result.low, 4), "high": round(result.high, 4)}
            self.masked.append(Masked(rows[item.n], "proximal_mask", detail, item.branch))

    @property
    def trainable_frac(self) -> float:
        return len({sequence.n for sequence in self.sequences}) / len(self.members)

    @property
    def tokens(self) -> int:
        return sum(len(sequence.mask) for sequence in self.sequences)


def shuffled(groups: Sequence[Group], seed: int, iteration: int) -> list[Group]:
    """Groups in an order fixed by seed and iteration; members stay adjacent (CONFIG 3)."""
    ordered = sorted(groups, key=lambda group: group.index)
    random.Random(f"{seed}-{iteration}").shuffle(ordered)
    return ordered


def chunks(members: Sequence[Episode], size: int) -> Iterator[Sequence[Episode]]:
    """Updates of `size` episodes; the last may be smaller."""
    for start in range(0, len(members), size):
        yield members[start : start + size]


def updates_of(
    groups: Sequence[Group], iteration: int, size: int, lags: Lags, training: TrainingConfig
) -> list[Update]:
    """The updates of `size` episodes each that an iteration's batch gives."""
    members = [member for group in shuffled(groups, training.seed, iteration) for member in group.members]
    advantages = {group.index: group.advantages for group in groups if group.advantages is not None}
    longest, mask = training.max_seq_len, training.mask_truncated
    assert longest is not None  # derived, where it is not given
    return [
        update_of(part, advantages, lags, made=made, max_seq_len=longest, mask_truncated=mask)
        for made, part in enumerate(chunks(members, size))
    ]


def update_of(
    members: Sequence[Episode],
    advantages: Mapping[int, GroupAdvantages],
    lags: Lags,
    *,
    made: int,
    max_seq_len: int,
    mask_truncated: bool,
) -> Update:
    """What carries gradient among `members`.

    Args:
        advantages: by group index.
        lags: as the batch closed.
        made: updates made since then.
        max_seq_len: longer sequences are left out, never cut.
        mask_truncated: episodes cut by a token or call limit are left out.
    """
    update = Update(members)
    for episode in members:
        assignment = episode.assignment
        assert assignment.group is not None
        scored = advantages[assignment.group]
        if scored.dead:
            continue
        left_out = _left_out(episode, lags, max_seq_len, mask_truncated)
        if left_out is not None:
            update.masked.append(left_out)
            continue
        update.sequences += _sequences(episode, scored, lags.of[episode.n] + made)
    return update


def _left_out(episode: Episode, lags: Lags, max_seq_len: int, mask_truncated: bool) -> Masked | None:
    if lags.is_past_limit(episode.n):  # max_lag was lowered while the run was going
        detail = {"version": episode.versions[0], "lag": lags.of[episode.n], "limit": lags.limit}
        return Masked(episode, "stale", detail)
    longest = max(len(branch.ids) for branch in episode.branches)
    if longest > max_seq_len:
        return Masked(episode, "too_long", {"tokens": longest, "limit": max_seq_len})
    if mask_truncated and episode.stop in TRUNCATED:
        return Masked(episode, "truncated", {"tokens": longest, "stop": episode.stop})
    return None


def _sequences(episode: Episode, scored: GroupAdvantages, lag: int) -> Iterator[TrainSequence]:
    member = episode.assignment.member
    per_turn = None if scored.turns is None else scored.turns[member]
    advantage = float(scored.advantages[member])
    earned = None
    if not np.isfinite(advantage):  # a critic's to compare
        assert episode.reward is not None
        earned = turn_rewards(episode.reward, episode.turns)
    for number, branch in enumerate(episode.branches):
        temperatures = token_temperatures(branch, episode.calls)
        uniform = len(set(temperatures)) == 1
        yield TrainSequence(
            n=episode.n,
            branch=number,
            group=episode.assignment.group or 0,
            ids=np.asarray(branch.ids, dtype="<i4").tobytes(),
            mask=np.asarray(branch.mask, dtype="u1").tobytes(),
            logp_behavior=np.asarray(branch.logp, dtype="<f4").tobytes(),
            advantage=advantage,
            reward=episode.total or 0.0,
            token_reward=b"" if earned is None else _token_reward(branch, earned),
            weight=branch.weight,
            temperature=temperatures[0],
            token_advantage=b"" if per_turn is None else _token_advantage(branch, per_turn),
            token_temperature=b"" if uniform else np.asarray(temperatures, dtype="<f4").tobytes(),
            lag=lag,
        )


def _token_advantage(branch: Branch, turns: NDArray[np.float64]) -> bytes:
    """[T] f32: the sampled tokens of a turn get the advantage of the turn.

    Args:
        turns: by number of the turn.
    """
    return np.where(branch.mask, turns[branch.turn], 0.0).astype("<f4").tobytes()


def _token_reward(branch: Branch, earned: Sequence[float]) -> bytes:
    """[T] f32: the last sampled token of a turn gets what the turn earned; the branch's last one also gets that of the
    turns which the branch does not hold.

    Args:
        earned: by number of the turn.
    """
    sampled = np.flatnonzero(branch.mask)
    last = {int(branch.turn[at]): at for at in sampled}
    rewards = np.zeros(len(branch.ids), dtype=np.float64)
    for turn, value in enumerate(earned):
        rewards[last.get(turn, sampled[-1])] += value
    return rewards.astype("<f4").tobytes()
