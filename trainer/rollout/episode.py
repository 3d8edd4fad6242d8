"""An episode as the coordinator holds it, and the pure rules that read it."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any, Literal

from trainer.judge.types import Judgement
from trainer.rewards.episode import EpisodeReward, JudgeScores
from trainer.rollout.types import Branch, Call
from trainer.taskapp.parse import ParsedRollout

Json = dict[str, Any]


@dataclass(frozen=True, slots=True)
class Assignment:
    """One play of a task: who plays what. A replay keeps all of it but `replay`."""

    split: Literal["train", "eval"]
    iteration: int
    group: int | None  # None in an evaluation
    member: int
    seed: int
    replay: int = 0
    version: int | None = None  # the pinned weights of an evaluation; None: those that serve


@dataclass(frozen=True, slots=True)
class Exclusion:
    """Why an episode is never trained on (WIRE 1.6)."""

    code: str
    detail: Json = field(default_factory=dict)
    evidence: str = ""


@dataclass(slots=True)
class Episode:
    """The record of one play. `reward` is None exactly when `exclusion` came before the reward."""

    assignment: Assignment
    cid: str
    tries: list[Json]  # earlier plays of this assignment: {cid, code, t, wall}
    number: int = 0  # of this try, replays included: TRY in its cid
    calls: list[Call] = field(default_factory=list)
    branches: list[Branch] = field(default_factory=list)
    token_counts: dict[str, int] = field(default_factory=dict)  # clean, realign, fork, drift, orphan
    forced: dict[str, int] = field(default_factory=dict)
    parsed: ParsedRollout | None = None
    judgement: Judgement | None = None
    judge_s: float = 0.0  # at the judge
    reward: EpisodeReward | None = None
    stop: str = "completed"
    exclusion: Exclusion | None = None
    started: float = 0.0  # of `steady`
    ended: float = 0.0
    n: int = -1  # row in the index, once recorded

    @property
    def total(self) -> float | None:
        return None if self.reward is None else self.reward.total

    @property
    def judged(self) -> JudgeScores:
        return JudgeScores() if self.judgement is None else JudgeScores(self.judgement.event, self.judgement.outcome)

    @property
    def turns(self) -> int:
        """Calls that the episode went on from; of an excluded one without token record, all calls."""
        return len(self.calls) - self.token_counts.get("orphan", 0)

    @property
    def facts(self) -> Json:
        """What fills the sentences of its warnings."""
        if self.reward is None:
            return {}
        outcome, total = f"{self.reward.outcome:g}", f"{self.reward.step_sum:g}"
        return {"steps": len(self.reward.steps), "calls": self.turns, "outcome": outcome, "sum": total}

    @property
    def sampled_tokens(self) -> int:
        return sum(len(call.completion_token_ids) for call in self.calls)

    @property
    def versions(self) -> tuple[int, int]:
        """Lowest and highest weight version of its tokens; (0, 0) without tokens."""
        seen = [span.weight_version for call in self.calls for span in call.spans]
        return (min(seen), max(seen)) if seen else (0, 0)


TRUNCATED = frozenset({"call_limit", "context_overflow", "max_tokens"})


def stop_reason(
    calls: list[Call],
    errors: list[str],
    parsed: ParsedRollout | None,
    *,
    exclusion: str | None,
    max_turns: int,
) -> str:
    """The first stop reason of WIRE 5.6 that holds.

    Args:
        errors: codes of the errors that the gateway answered this episode's calls with.
    """
    if exclusion == "timeout":
        return "timeout"
    if exclusion in ("aborted", "call_aborted") or (exclusion and parsed is None):
        return "aborted"
    if "call_limit" in errors:
        return "call_limit"
    if "context_length_exceeded" in errors:
        return "context_overflow"
    if calls and calls[-1].finish_reason == "length":
        return "max_tokens"
    steps = parsed.steps if parsed is not None else []
    if steps and steps[-1].truncated:
        return "max_turns"
    if len(calls) >= max_turns > 1 and not (steps and steps[-1].done):
        return "max_turns"
    return "completed"
