"""What a judge reads, an episode, and what it says, a judgement. Both can be built from a run's record alone."""

from __future__ import annotations

from typing import Any

import msgspec

from trainer.rundir.textcut import text_of
from trainer.taskapp.reading import finite, listing, mapping

Json = dict[str, Any]


class JudgedTurn(msgspec.Struct, kw_only=True):
    """One turn. `messages` are those that it added: {role, text, reasoning?, tool_calls?, name?}."""

    t: int
    messages: list[Json]
    reward: float | None = None
    done: bool | None = None
    truncated: bool | None = None

    @property
    def answer(self) -> str:
        """What the policy wrote in this turn."""
        return "\n".join(text for m in self.messages if m["role"] == "assistant" and (text := m["text"]))

    @property
    def tool_calls(self) -> list[Json]:
        """What the policy called in this turn: {name, arguments}, the arguments as they were written."""
        return [
            {"name": str(function.get("name", "")), "arguments": function.get("arguments")}
            for message in self.messages
            if message["role"] == "assistant"
            for call in listing(message.get("tool_calls"))
            if (function := mapping(mapping(call).get("function")) or mapping(call))
        ]


class JudgedEpisode(msgspec.Struct, kw_only=True):
    """An episode as a judge sees it, under the numbers of its record (WIRE 5.6)."""

    cid: str
    turns: list[JudgedTurn]
    env_reward: float | None = None
    step: int = 0
    iteration: int = 0
    n: int | None = None  # its row, once it has one
    seed: int = 0
    env_name: str = ""
    task: Json = {}  # what the app says of the task: name, description

    @property
    def final_text(self) -> str:
        """The policy's last answer; empty if there is none."""
        return self.turns[-1].answer if self.turns else ""


class CriterionScore(msgspec.Struct):
    """0 to 1, and why."""

    score: float
    reason: str = ""


class Review(msgspec.Struct, kw_only=True):
    """What was said of one turn, or (`turn` None) of the whole episode."""

    total: float
    criteria: dict[str, CriterionScore] = {}
    tracks: dict[str, float] = {}
    turn: int | None = None
    summary: str = ""

    def record(self) -> Json:
        return {name: value for name, value in msgspec.to_builtins(self).items() if value not in (None, "")}


class Judgement(msgspec.Struct, kw_only=True):
    """The scores of one episode. `event` is J_event, `outcome` J_outcome; None: that kind is not judged."""

    event: float | None = None
    outcome: float | None = None
    event_scores: list[float] = []  # one a turn
    event_reviews: list[Review] = []
    outcome_review: Review | None = None
    model: str | None = None
    tokens_in: int = 0
    tokens_out: int = 0
    cost_usd: float | None = None  # None: unknown
    seconds: float = 0.0
    cached: bool = False  # every answer was known already: nothing was paid
    calls: list[int] = []  # what the record of each call gave: its byte in judge.jsonl

    @property
    def tracks(self) -> dict[str, float]:
        """Score by track: of the outcome, and of the turns (their mean) where the outcome has no such track."""
        by_track: dict[str, list[float]] = {}
        for review in self.event_reviews:
            for name, score in review.tracks.items():
                by_track.setdefault(name, []).append(score)
        means = {name: sum(scores) / len(scores) for name, scores in by_track.items()}
        return means | (self.outcome_review.tracks if self.outcome_review else {})

    def record(self) -> Json:
        """The `judge` field of an episode's text line (WIRE 5.6)."""
        return {
            "event": [review.record() for review in self.event_reviews],
            "outcome": self.outcome_review.record() if self.outcome_review else None,
            "tracks": self.tracks,
            "calls": self.calls,
        }


def from_record(line: Json) -> JudgedEpisode:
    """The episode of a text line as the run directory keeps it; of a live one, of the record that will be written.

    Nothing in it is trusted: a field of a wrong type reads as missing.
    """
    turns = [
        JudgedTurn(
            t=turn["t"] if isinstance(turn.get("t"), int) else number,
            messages=[_message(message) for message in map(mapping, listing(turn.get("messages")))],
            reward=finite(turn.get("reward")),
            done=_flag(turn.get("done")),
            truncated=_flag(turn.get("truncated")),
        )
        for number, turn in enumerate(map(mapping, listing(line.get("turns"))))
    ]
    number = line.get("n")
    return JudgedEpisode(
        cid=str(line.get("cid", "")),
        turns=turns,
        env_reward=finite(line.get("O")),
        step=_int(line.get("step")),
        iteration=_int(line.get("iteration")),
        n=number if isinstance(number, int) and number >= 0 else None,
        seed=_int(line.get("seed")),
    )


def _message(message: Json) -> Json:
    return {**message, "role": str(message.get("role", "")), "text": text_of(message.get("text"))}


def _int(value: object) -> int:
    return value if isinstance(value, int) else 0


def _flag(value: object) -> bool | None:
    return value if isinstance(value, bool) else None
