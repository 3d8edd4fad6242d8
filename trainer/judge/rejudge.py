"""Recorded episodes judged again: by an edited rubric, another model, or the same one to see its noise (WIRE 5.7)."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any

import msgspec

from trainer.config.schema import JudgeConfig
from trainer.judge.cost import cost_usd
from trainer.judge.errors import JudgeFailed
from trainer.judge.judge import Judge
from trainer.judge.rubric import KINDS, Rubric
from trainer.judge.types import JudgedEpisode, from_record
from trainer.rewards.episode import JudgeScores, blended
from trainer.rewards.rules import Blend
from trainer.rundir.records import JudgeRecord
from trainer.taskapp.reading import finite, listing, mapping

Json = dict[str, Any]
CHARS_A_TOKEN = 4
PROMPT_TOKENS = 400  # of what surrounds a transcript
ANSWER_TOKENS = 60  # of a criterion


class Rejudged(msgspec.Struct, kw_only=True):
    """One episode, before and now. What was or is not judged is None; `code` and `cause` say why there is no score.

    Attributes:
        reward_if: R with the new scores, under the run's own blend.
    """

    n: int | None
    cid: str
    env: float | None
    reward: float | None
    old_event: float | None
    old_outcome: float | None
    event: float | None = None
    outcome: float | None = None
    reward_if: float | None = None
    code: str | None = None
    cause: str | None = None


class Forecast(msgspec.Struct, frozen=True, kw_only=True):
    """What a re-judging will ask for, by what earlier calls took or by the length of the transcripts."""

    calls: int
    tokens_in: int
    tokens_out: int
    cost_usd: float | None  # None: the price is unknown


def judge_config(values: Mapping[str, Mapping[str, Any]], rubric: Rubric) -> JudgeConfig:
    """[judge] of a run, with its rubric out of the way: what `rubric` has parts for is judged. Criteria that all have
    rules need no model, whatever judged the run.

    Args:
        values: leaves {value, ...} of resolved.json by key.
    """
    found: Json = {}
    for key, leaf in values.items():
        section, _, name = key.rpartition(".")
        if section == "judge":
            found[name] = leaf["value"]
        elif section == "judge.options":
            found.setdefault("options", {})[name] = leaf["value"]
    config = JudgeConfig.model_validate(found)
    on = {kind: getattr(config.options, kind) and rubric.part(kind) is not None for kind in KINDS}
    if not any(on.values()):
        on = {kind: rubric.part(kind) is not None for kind in KINDS}
    without: Json = {"rubric_id": rubric.id, "rubric_overrides": {}}
    parts = [rubric.part(kind) for kind in KINDS if on[kind]]
    ruled = all(criterion.rule is not None for part in parts if part is not None for criterion in part.criteria)
    options = config.options.model_copy(update=without | on)
    return config.model_copy(update={"options": options, **({"type": "rule"} if ruled and any(on.values()) else {})})


def seen(line: Json, task: Json, env_name: str) -> JudgedEpisode:
    """An episode of its text line, with what the live judge was told of the task."""
    return msgspec.structs.replace(from_record(line), task=task, env_name=env_name)


def forecast(
    episodes: Iterable[JudgedEpisode],
    rubric: Rubric | None,
    config: JudgeConfig,
    model: str | None,
    known: Iterable[Json],
) -> Forecast:
    """
    Args:
        known: earlier lines of judge.jsonl; those of the same kind say how many tokens a call takes.
    """
    took: dict[str, list[tuple[int, int]]] = {}
    for line in known:
        read, written = line.get("tokens_in"), line.get("tokens_out")
        if line.get("status") == "ok" and isinstance(read, int) and isinstance(written, int):
            took.setdefault(str(line.get("kind")), []).append((read, written))
    calls = tokens_in = tokens_out = 0
    for episode in episodes:
        chars = sum(len(message["text"]) for turn in episode.turns for message in turn.messages)
        for kind, times in (("event", len(episode.turns)), ("outcome", 1)):
            if not getattr(config.options, kind):
                continue
            part = rubric.part(kind) if rubric else None
            guess = (chars // CHARS_A_TOKEN + PROMPT_TOKENS, ANSWER_TOKENS * len(part.criteria if part else ()) or 100)
            earlier = took.get(kind) or [guess]
            calls += times
            tokens_in += times * sum(pair[0] for pair in earlier) // len(earlier)
            tokens_out += times * sum(pair[1] for pair in earlier) // len(earlier)
    return Forecast(
        calls=calls, tokens_in=tokens_in, tokens_out=tokens_out, cost_usd=cost_usd(model, tokens_in, tokens_out)
    )


class Rejudging:
    """Judges text lines of a run again; each call becomes a line with `old_total` and `R_if`."""

    def __init__(self, write: Callable[[Json], object]) -> None:
        """write: takes a line; called once an episode is done."""
        self._write = write
        self._lines: dict[str, list[JudgeRecord]] = {}

    def record(self, line: JudgeRecord) -> int:
        """What `make_judge` wants as its record."""
        self._lines.setdefault(line.cid, []).append(line)
        return 0

    async def run(
        self, judge: Judge, pairs: Sequence[tuple[Json, JudgedEpisode]], done: Callable[[Rejudged], object]
    ) -> list[Rejudged]:
        """In the order given. Raises JudgeMisconfigured, with the lines of all that was asked written."""
        try:
            return await asyncio.gather(*(self._one(judge, line, episode, done) for line, episode in pairs))
        finally:
            for line, _ in pairs:
                self._flush(line, None)

    async def _one(
        self, judge: Judge, line: Json, episode: JudgedEpisode, done: Callable[[Rejudged], object]
    ) -> Rejudged:
        result = Rejudged(
            n=episode.n,
            cid=episode.cid,
            env=episode.env_reward,
            reward=finite(line.get("R")),
            old_event=finite(line.get("je")),
            old_outcome=finite(line.get("jo")),
        )
        try:
            given = await judge.judge(episode)
        except JudgeFailed as failure:
            result.code, result.cause = failure.code, failure.text
        else:
            result.event, result.outcome = given.event, given.outcome
            result.reward_if = reward_if(line, JudgeScores(given.event, given.outcome))
        self._flush(line, result.reward_if)
        done(result)
        return result

    def _flush(self, line: Json, reward: float | None) -> None:
        turns = {turn.get("t"): finite(turn.get("judge")) for turn in map(mapping, listing(line.get("turns")))}
        for call in self._lines.pop(str(line.get("cid")), ()):
            old = turns.get(call.turn) if call.kind == "event" else finite(line.get("jo"))
            self._write(
                {"attempt": line.get("attempt", 1), **msgspec.to_builtins(call), "old_total": old, "R_if": reward}
            )


def reward_if(line: Json, judged: JudgeScores) -> float | None:
    """R of a text line with other scores of the judge. None: the line lacks a part that has weight."""
    rewards = mapping(line.get("rewards"))
    outcome, beta = finite(rewards.get("O")), finite(rewards.get("beta")) or 0.0
    weights = {name: finite(value) for name, value in mapping(rewards.get("weights")).items()}
    steps = [finite(step) for step in listing(rewards.get("steps"))]
    if outcome is None or set(weights) != {"env", "event", "outcome"} or None in (*weights.values(), *steps):
        return None
    try:
        return blended(outcome, steps if beta else (), beta, judged, Blend(**weights))  # type: ignore[arg-type]  # no None
    except ValueError:  # a weight whose kind the rubric does not score
        return None
