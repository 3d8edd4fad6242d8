"""An episode as the run directory keeps it (WIRE 5.6). Pure."""

from __future__ import annotations

from typing import Any

from trainer.rollout.episode import Episode
from trainer.rollout.types import Branch, Call
from trainer.rundir.records import EpisodeRecord, TurnRecord
from trainer.rundir.records import Exclusion as ExclusionRecord

Json = dict[str, Any]


def episode_record(episode: Episode, *, step: int, temperature: float, max_tokens: int) -> EpisodeRecord:
    """The record of a finished play; `step` is the last step of its iteration."""
    assignment, parsed, reward = episode.assignment, episode.parsed, episode.reward
    calls = episode.calls
    waited = sum(max(0.0, call.t_start - call.t_queued) for call in calls)
    generating = sum(max(0.0, call.t_end - call.t_start) for call in calls)
    wall = episode.ended - episode.started
    return EpisodeRecord(
        cid=episode.cid,
        step=step,
        iteration=assignment.iteration,
        split=assignment.split,
        seed=assignment.seed,
        group=assignment.group,
        member=assignment.member,
        try_=len(episode.tries) + assignment.replay,
        R=episode.total,
        O=None if parsed is None else parsed.outcome,
        sr=None if parsed is None else float(sum(parsed.event_rewards)),
        stop=episode.stop,
        t=episode.ended,
        wall=wall,
        branches=episode.branches,
        turns=turn_records(episode),
        rewards={} if reward is None else reward.record(),
        exclusion=None
        if episode.exclusion is None
        else ExclusionRecord(
            code=episode.exclusion.code,
            detail=episode.exclusion.detail,
            evidence=episode.exclusion.evidence,
        ),
        tries=episode.tries,
        sampling={"temperature": temperature, "max_tokens": max_tokens},
        forced=episode.forced,
        warnings=[] if parsed is None else list(parsed.warnings),
        app={} if parsed is None else {"metrics": parsed.metrics},
        timings={
            "queue": waited,
            "generate": generating,
            "app": max(0.0, wall - waited - generating),
            "total": wall,
        },
    )


def turn_records(episode: Episode) -> list[TurnRecord]:
    """One turn a model call; rewards join in where the app's steps and the calls are equal in number."""
    steps = [] if episode.parsed is None else episode.parsed.steps
    matched = len(steps) == len(episode.calls)
    places = _places(episode.branches)
    turns: list[TurnRecord] = []
    seen: list[Json] = []
    for index, call in enumerate(episode.calls):
        step = steps[index] if matched else None
        branch, span = places.get(index, (None, None))
        turns.append(
            TurnRecord(
                t=index,
                calls=[call.call],
                messages=[*_new_messages(seen, call.messages), *_reply(call)],
                tools=call.tools if index == 0 or call.tools != episode.calls[index - 1].tools else None,
                reward=None if step is None else step.reward,
                done=None if step is None else step.done,
                truncated=None if step is None else step.truncated,
                branch=branch,
                span=span,
                finish_reason=call.finish_reason,
                t_queued=call.t_queued,
                t_start=call.t_start,
                t_first=call.t_first,
                t_end=call.t_end,
            )
        )
        seen = [*call.messages, *([call.response] if call.response else [])]
    return turns


def _places(branches: list[Branch]) -> dict[int, tuple[int, list[int]]]:
    """Turn -> (branch, [start, end) of its sampled tokens in the branch's block)."""
    places: dict[int, tuple[int, list[int]]] = {}
    for number, branch in enumerate(branches):
        for position, (sampled, turn) in enumerate(zip(branch.mask, branch.turn, strict=True)):
            if sampled:
                start = places[turn][1][0] if turn in places and places[turn][0] == number else position
                places[turn] = (number, [start, position + 1])
    return places


def _new_messages(seen: list[Json], messages: list[Json]) -> list[Json]:
    """What this call added to the conversation; all of it where history was edited."""
    known = [_key(message) for message in seen]
    extends = [_key(message) for message in messages[: len(known)]] == known
    return [_plain(message) for message in (messages[len(known) :] if extends else messages)]


def _key(message: Json) -> tuple[str, str]:
    return (str(message.get("role")), _text(message.get("content")))


def _plain(message: Json) -> Json:
    kept = {name: message[name] for name in ("tool_calls", "name", "reasoning") if message.get(name)}
    return {"role": str(message.get("role", "")), "text": _text(message.get("content")), **kept}


def _reply(call: Call) -> list[Json]:
    return [_plain(call.response)] if call.response else []


def _text(content: Any) -> str:
    if isinstance(content, str):
        return content
    if isinstance(content, list):
        return "".join(str(part.get("text", "")) for part in content if isinstance(part, dict))
    return "" if content is None else str(content)
