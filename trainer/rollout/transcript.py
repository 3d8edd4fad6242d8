"""An episode as the run directory keeps it (WIRE 5.6). Pure."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from trainer.rewards.episode import EpisodeReward
from trainer.rewards.turns import read_turns
from trainer.rollout.episode import Episode
from trainer.rollout.types import Branch, Call
from trainer.rundir.records import EpisodeRecord, TurnRecord
from trainer.rundir.records import Exclusion as ExclusionRecord

Json = dict[str, Any]


def episode_record(episode: Episode, *, step: int, temperature: float, max_tokens: int) -> EpisodeRecord:
    """The record of a finished play; `step` is the last step of its iteration."""
    assignment, parsed, reward = episode.assignment, episode.parsed, episode.reward
    calls = episode.calls
    # A call that was aborted in the queue has no start.
    waited = sum(max(0.0, (call.t_start or call.t_end) - call.t_queued) for call in calls)
    held = sum(call.held_s for call in calls)
    generating = sum(max(0.0, call.t_end - (call.t_start or call.t_end) - call.held_s) for call in calls)
    wall = episode.ended - episode.started
    return EpisodeRecord(
        cid=episode.cid,
        step=step,
        iteration=assignment.iteration,
        split=assignment.split,
        seed=assignment.seed,
        group=assignment.group,
        member=assignment.member,
        try_=episode.number,
        R=episode.total,
        O=None if parsed is None else parsed.outcome,
        sr=None if reward is None else reward.step_sum,
        je=episode.judged.event,
        jo=episode.judged.outcome,
        stop=episode.stop,
        wall=wall,
        branches=episode.branches,
        turns=turn_records(episode),
        rewards={} if reward is None else reward.record(),
        judge=None if episode.judgement is None else episode.judgement.record(),
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
        app={}
        if parsed is None
        else {
            "status": parsed.status,
            "body_bytes": parsed.body_bytes,
            "metrics": parsed.metrics,
            "extra": parsed.extra,
        },
        timings={
            "queue": waited,
            "generate": generating,
            "wait_for_sync": held,
            "app": max(0.0, wall - waited - generating - held - episode.judge_s),
            "judge": episode.judge_s,
            "total": wall,
        },
    )


def turn_records(episode: Episode) -> list[TurnRecord]:
    """One turn a model call that was used, numbered as in the token arrays; rewards join in where the app's steps
    match the turns. An orphan (a call whose answer the app dropped) is listed under the turn that replaced it."""
    places = _places(episode.branches)
    turns = _turns(len(episode.calls), places)
    told = None if episode.parsed is None else read_turns(episode.parsed, episode.turns)
    judged = {} if episode.judgement is None else {r.turn: r.total for r in episode.judgement.event_reviews}
    records: list[TurnRecord] = []
    seen: list[Json] = []
    tools: list[Json] | None = None
    for number, calls in enumerate(turns):
        call = episode.calls[calls[-1]]
        place = places.get(calls[-1])
        t = number if place is None else place.turn
        said = told.items[t] if told is not None and told.matched else None
        records.append(
            TurnRecord(
                t=t,
                calls=[episode.calls[index].call for index in calls],
                messages=[*_new_messages(seen, call.messages), *_reply(call)],
                tools=call.tools if call.tools != tools else None,
                reward=None if said is None else said.reward,
                achievements=list(said.unlocks.new) or None if said is not None else None,
                **_step_reward(episode.reward, t),
                judge=judged.get(t),
                done=None if said is None else said.done,
                truncated=None if said is None else said.truncated,
                branch=None if place is None else place.branch,
                span=None if place is None else place.span,
                finish_reason=call.finish_reason,
                t_queued=call.t_queued,
                t_start=call.t_start or None,
                t_first=call.t_first or None,
                t_end=call.t_end,
            )
        )
        seen = [*call.messages, *([call.response] if call.response else [])]
        tools = call.tools
    return records


def _step_reward(reward: EpisodeReward | None, turn: int) -> dict[str, float]:
    """What the turn adds to R, if it does."""
    if reward is None or not reward.matched or not reward.beta:
        return {}
    return {"step_r": reward.steps[turn], **({"event_reward": reward.events[turn]} if reward.events else {})}


@dataclass(frozen=True, slots=True)
class _Place:
    """Where a call's sampled tokens stand: [start, end) of a branch's block, under the number of its turn."""

    turn: int
    branch: int
    span: list[int]


def _places(branches: list[Branch]) -> dict[int, _Place]:
    """By index of the call. Calls without a sampled token have none."""
    places: dict[int, _Place] = {}
    for number, branch in enumerate(branches):
        spans: dict[int, list[int]] = {}
        for position, (sampled, turn) in enumerate(zip(branch.mask, branch.turn, strict=True)):
            if sampled:
                spans.setdefault(turn, [position, position])[1] = position + 1
        for call, turn in zip(branch.calls, dict.fromkeys(branch.turn), strict=True):
            if turn in spans:
                places[call] = _Place(turn, number, spans[turn])
    return places


def _turns(calls: int, places: dict[int, _Place]) -> list[list[int]]:
    """Call indices of each turn, the used one last. Without any branch (excluded) every call is a turn."""
    if not places:
        return [[index] for index in range(calls)]
    turns: list[list[int]] = []
    waiting: list[int] = []
    for index in range(calls):
        waiting.append(index)
        if index in places:
            turns.append(waiting)
            waiting = []
    turns[-1][:0] = waiting
    return turns


def _new_messages(seen: list[Json], messages: list[Json]) -> list[Json]:
    """What this call added to the conversation; all of it where history was edited."""
    known = [_key(message) for message in seen]
    extends = [_key(message) for message in messages[: len(known)]] == known
    return [_plain(message) for message in (messages[len(known) :] if extends else messages)]


def _key(message: Json) -> tuple[str, str]:
    return (str(message.get("role")), _text(message.get("content")))


def _plain(message: Json) -> Json:
    kept = {name: message[name] for name in ("tool_calls", "name", "reasoning") if message.get(name)}
    if message.get("reasoning_content"):  # as chat servers call it
        kept["reasoning"] = message["reasoning_content"]
    return {"role": str(message.get("role", "")), "text": _text(message.get("content")), **kept}


def _reply(call: Call) -> list[Json]:
    return [_plain(call.response)] if call.response else []


def _text(content: Any) -> str:
    if isinstance(content, str):
        return content
    if isinstance(content, list):
        return "".join(str(part.get("text", "")) for part in content if isinstance(part, dict))
    return "" if content is None else str(content)
