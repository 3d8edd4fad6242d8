"""What is written of episodes, groups, judge calls and their later fate (WIRE 5.6, 5.7)."""

from __future__ import annotations

from typing import Any

import msgspec

from trainer.rollout.types import Branch

Json = dict[str, Any]


class TurnRecord(msgspec.Struct, kw_only=True, omit_defaults=True):
    """One turn of an episode. What is not known is left out and read as null, never as 0."""

    t: int  # 0-based
    calls: list[int]  # indices of its model calls
    messages: list[Json]  # new ones only: {role, text, reasoning?, tool_calls?, name?}
    tools: list[Json] | None = None  # where they changed
    reward: float | None = None
    event_reward: float | None = None
    achievements: Any = None
    step_r: float | None = None  # r_t as resolved (CONFIG 6)
    judge: float | None = None
    done: bool | None = None
    truncated: bool | None = None
    branch: int | None = None
    span: list[int] | None = None  # [start, end) in its token block
    finish_reason: str | None = None
    t_queued: float | None = None
    t_start: float | None = None
    t_first: float | None = None
    t_end: float | None = None


class Exclusion(msgspec.Struct, kw_only=True):
    """Why an episode is not trained on: a code of WIRE 1.6, what fills its sentence, and the raw proof."""

    code: str
    detail: Json = {}
    evidence: str = ""


class EpisodeRecord(msgspec.Struct, kw_only=True):
    """One finished episode. Row, places, token counts and weight versions follow from it in the writer.

    `step` is the last step of its iteration (iteration x m); of an evaluation, the updates done at its start.
    """

    cid: str
    step: int
    iteration: int
    split: str  # train, eval
    seed: int
    group: int | None
    member: int
    try_: int = msgspec.field(default=0, name="try")
    R: float | None = None  # reward
    O: float | None = None  # outcome  # noqa: E741
    sr: float | None = None  # sum of step rewards
    je: float | None = None  # judge, events
    jo: float | None = None  # judge, outcome
    stop: str = "completed"
    t: float = 0.0  # end, epoch seconds
    wall: float = 0.0  # seconds
    branches: list[Branch] = []
    turns: list[TurnRecord] | list[Json] = []
    rewards: Json = {}
    judge: Json | None = None
    exclusion: Exclusion | None = None
    tries: list[Json] = []  # earlier plays [{cid, code, t, wall}]
    sampling: Json = {}
    forced: Any = {}
    warnings: list[Any] = []
    app: Json = {}
    timings: dict[str, float] = {}
    extra: Json = {}  # further fields of the text line

    def index_fields(self, n: int, attempt: int, t: float) -> Json:
        """What the index has of it but where its text and its tokens are, the text line too. `t`: its end."""
        return {
            "n": n,
            "cid": self.cid,
            "attempt": attempt,
            "step": self.step,
            "iteration": self.iteration,
            "split": self.split,
            "seed": self.seed,
            "group": self.group,
            "member": self.member,
            "try": self.try_,
            "ver": self.versions(),
            "turns": len(self.turns),
            "tok": self.token_counts(),
            "R": self.R,
            "O": self.O,
            "sr": self.sr,
            "je": self.je,
            "jo": self.jo,
            "stop": self.stop,
            "excl": self.exclusion.code if self.exclusion else None,
            "t": t,
            "wall": self.wall,
        }

    def versions(self) -> list[int] | None:
        """[min, max] weight version of its sampled tokens."""
        seen = [span.weight_version for branch in self.branches for span in branch.spans]
        return [min(seen), max(seen)] if seen else None

    def token_counts(self) -> list[int]:
        """[prompt, sampled] tokens of all branches."""
        total = sum(len(branch.ids) for branch in self.branches)
        sampled = sum(sum(branch.mask) for branch in self.branches)
        return [total - sampled, sampled]


class GroupRecord(msgspec.Struct, kw_only=True):
    """One closed group: episodes of one seed that are compared with each other."""

    step: int
    iteration: int
    group: int
    seed: int
    split: str
    members: list[int]  # n of each
    rewards: list[float | None]
    mean: float | None
    std: float | None  # ddof 0
    dead: bool
    refills: list[int] = []
    dropped: Json | None = None  # {code, member}
    replaces: int | None = None
    t: float | None = None  # default: when it is written


class JudgeRecord(msgspec.Struct, kw_only=True):
    """One finished judge call. `key` is the sha256 of the whole request: a resumed run pays nothing twice."""

    step: int
    iteration: int
    n: int | None  # null where the episode has no row yet
    cid: str
    kind: str  # event, outcome, both
    turn: int | None
    source: str  # llm, rule, service
    provider: str | None
    model: str | None
    rubric_id: str | None
    rubric_hash: str | None
    key: str
    try_: int = msgspec.field(default=0, name="try")
    t_queued: float | None = None
    t_start: float | None = None
    wall_s: float | None = None
    status: str = "ok"  # ok, failed, cached
    code: str | None = None
    http: int | None = None
    tokens_in: int | None = None
    tokens_out: int | None = None
    cost_usd: float | None = None
    total: float | None = None
    criteria: dict[str, float] = {}
    tracks: dict[str, float] = {}
    reply: str = ""  # at most 2,000 characters


# Events whose data repeats the step of the line (WIRE 3.5).
EVENTS_WITH_STEP = frozenset({"rl.train.step", "rl.checkpoint.saved"})
TERMINAL_STATES = frozenset({"succeeded", "failed", "cancelled"})
