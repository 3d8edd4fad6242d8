"""Reads a rollout response of any version by field, first hit wins (WIRE 1.5). Pure functions."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any

from trainer.taskapp.codes import clean
from trainer.taskapp.errors import EVIDENCE_CHARS, RolloutFailure
from trainer.taskapp.reading import (
    Json,
    cid_of_url,
    count,
    finite,
    listing,
    mapping,
    server_error,
    text_of,
)

MAX_EXTRA, EXTRA_CHARS = 20, 500
_READ = frozenset(
    "aborted event_objectives inference_url metrics ops_executed outcome_objectives outcome_reward pipeline_metadata "
    "reward_info run_id status_detail steps success_status trace trace_correlation_id trajectories".split()
)
_KNOWN_PARTS = ("metrics", "reward_info", "trace", "trajectories", "steps")
_FAILURE = re.compile(
    r"(?!succe).*(fail|error|timeout|timed.?out|abort|cancel|crash|killed|unreachable)", re.IGNORECASE
)


@dataclass(slots=True)
class Step:
    """One environment step as the app reports it. `info` carries step credit (CONFIG 6)."""

    reward: float
    done: bool = False
    truncated: bool = False
    info: Json = field(default_factory=dict)
    obs: Any = None
    tool_calls: list[Any] = field(default_factory=list)
    decision: int | None = None  # `decision_index`: the model call that caused it


@dataclass(slots=True)
class ParsedRollout:
    """An episode's facts. Lists are in the order of the app; rewards are finite floats."""

    outcome: float
    outcome_path: str  # where it was found, e.g. metrics.outcome_reward
    event_rewards: list[float]
    steps: list[Step]
    num_steps: int | None  # None: the app does not say, so the recorded calls count
    truncated: bool  # the app says that the episode was cut
    status_detail: str | None
    warnings: list[str]  # kinds of codes.WARNINGS
    trace: Json | None
    metrics: Json
    decision_samples: list[Any]
    inference_url: str | None  # as echoed
    extra: Json = field(default_factory=dict)  # top-level fields that mean nothing here, the short ones
    status: int | None = None  # of the HTTP answer
    body_bytes: int | None = None


def parse_rollout(body: object, *, cid: str, raw: str | None = None) -> ParsedRollout:
    """Reads the decoded JSON of an answer to the rollout `cid`; raises `RolloutFailure` and nothing else.

    raw: the answer as it was received, if at hand, for the evidence of a failure.
    """
    try:
        return _parse(body, cid)
    except RolloutFailure as failure:
        failure.evidence = raw[:EVIDENCE_CHARS] if raw is not None else evidence_of(body)
        raise


def _parse(body: object, cid: str) -> ParsedRollout:
    top = mapping(body)
    if not any(isinstance(top.get(part), (dict, list)) for part in _KNOWN_PARTS):
        raise RolloutFailure("wrong_shape", {"fields": [clean(name, 60) for name in list(top)[:20]]})
    trajectories = listing(top.get("trajectories"))
    if len(trajectories) > 1:
        raise RolloutFailure("multiple_trajectories", {"count": len(trajectories)})
    first = mapping(trajectories[0]) if trajectories else {}
    metrics, warnings = mapping(top.get("metrics")), list[str]()

    url = _check_identity(top, first, cid, warnings)
    _check_status(top)
    trace = next((t for t in (top.get("trace"), first.get("trace")) if isinstance(t, dict)), None)
    raw_steps = listing(first.get("steps")) or listing(top.get("steps"))
    steps, rewarded = _steps(raw_steps, warnings) if raw_steps else _steps_of_trace(trace or {})
    _check_step_errors(steps, warnings)
    if raw_steps and not all("meta" in step.info for step in steps):
        warnings.append("step_meta_missing")
    if trace is not None and trace.get("event_history") == []:
        warnings.append("empty_event_history")

    outcome, path = _outcome(top, metrics, steps if rewarded else [], warnings)
    counts = (metrics.get("num_steps"), top.get("ops_executed"), first.get("length"))
    return ParsedRollout(
        outcome=outcome,
        outcome_path=path,
        event_rewards=_event_rewards(top, metrics, steps),
        steps=steps,
        num_steps=next((n for n in map(count, counts) if n is not None), None),
        truncated=bool(steps and steps[-1].truncated),
        status_detail=_status_detail(top),
        warnings=warnings,
        trace=trace,
        metrics=metrics,
        decision_samples=listing(first.get("decision_samples")),
        inference_url=url,
        extra=_extra(top),
    )


def check_against_calls(parsed: ParsedRollout, *, calls: int, failed: list[tuple[int, int]], max_turns: int) -> None:
    """Compares an answer with what the gateway recorded under its cid; adds warnings in place.

    calls: number of recorded calls. failed: (call, HTTP status) of those the gateway answered with an error.
    Raises `no_steps`, `no_recorded_call` or `app_error`.
    """
    if failed:
        raise RolloutFailure("app_error", {"call": failed[0][0], "status": failed[0][1]})
    if calls == 0:
        raise RolloutFailure("no_steps" if parsed.num_steps == 0 else "no_recorded_call")
    if parsed.num_steps is not None and parsed.num_steps != calls:
        parsed.warnings.append("num_steps_mismatch")
    if calls > max_turns:
        parsed.warnings.append("more_calls_than_turns")


def _extra(top: Json) -> Json:
    """What the app sent besides: at most 20 fields, each of at most 500 characters as JSON."""
    found: Json = {}
    for name, value in top.items():
        if name in _READ or len(found) == MAX_EXTRA or value is None or len(name) > 100:
            continue
        scalar = isinstance(value, bool | int | float) or (isinstance(value, str) and len(value) <= EXTRA_CHARS)
        if scalar or (isinstance(value, dict | list) and len(evidence_of(value)) <= EXTRA_CHARS):
            found[name] = value
    return found


def evidence_of(body: object) -> str:
    """The answer as text, cut to what a record keeps."""
    try:
        return json.dumps(body, ensure_ascii=True, default=repr)[:EVIDENCE_CHARS]
    except (ValueError, RecursionError):
        return f"<{type(body).__name__} that cannot be shown>"


def _check_identity(top: Json, first: Json, cid: str, warnings: list[str]) -> str | None:
    """Raises `cid_mismatch` if the echoed id or URL names another episode; returns the URL echo."""
    pipeline = mapping(top.get("pipeline_metadata"))
    holders = (top, pipeline, first)
    ids = [*(h.get("trace_correlation_id") for h in holders), top.get("run_id")]
    echo = next((i for i in map(text_of, ids) if i), None)
    if echo is None:
        warnings.append("no_id_echo")
    elif echo != cid:
        raise RolloutFailure("cid_mismatch", {"other": clean(echo)})

    steps = listing(first.get("steps")) or listing(top.get("steps"))
    metas = (mapping(mapping(mapping(step).get("info")).get("meta")) for step in steps)
    urls = (text_of(h.get("inference_url")) for h in (*holders, *metas))
    url = next((u for u in urls if u), None)
    if url is None:
        warnings.append("no_inference_url_echo")
    elif (other := cid_of_url(url)) is None:
        warnings.append("inference_url_without_cid")
    elif other != cid:
        raise RolloutFailure("cid_mismatch", {"other": clean(other)})
    return url


def _status_detail(top: Json) -> str | None:
    value = top.get("status_detail")
    return clean(value if isinstance(value, str) else evidence_of(value)) if value is not None else None


def _check_status(top: Json) -> None:
    status = top.get("success_status")
    failed = status is False or (isinstance(status, str) and _FAILURE.match(status[:100]) is not None)
    if top.get("aborted") is True or failed:
        cause = _status_detail(top) or (clean(status) if isinstance(status, str) else "no reason given")
        raise RolloutFailure("aborted", {"status_detail": cause})


def _reward(value: object, path: str) -> float:
    """A step or event reward; null is 0, anything that is not a finite number excludes the episode."""
    if value is None:
        return 0.0
    number = finite(value)
    if number is None:
        raise RolloutFailure("reward_not_finite", {"path": path, "value": _shown(value)})
    return number


def _shown(value: object) -> str:
    if isinstance(value, (dict, list)):
        return "an object" if isinstance(value, dict) else "a list"
    if isinstance(value, int) and not isinstance(value, bool) and value.bit_length() > 1_000:
        return "an integer too large"  # str() of it would raise
    return clean(repr(value), 60)


def _steps(raw: list[Any], warnings: list[str]) -> tuple[list[Step], bool]:
    """The steps, and whether any carries a reward at all: a sum over none would be a made-up 0."""
    steps: list[Step] = []
    for i, item in enumerate(raw):
        if not isinstance(item, dict):
            warnings.extend([] if "malformed_step" in warnings else ["malformed_step"])
        step = mapping(item)
        steps.append(
            Step(
                reward=_reward(step.get("reward"), f"steps[{i}].reward"),
                done=step.get("done") is True,
                truncated=step.get("truncated") is True,
                info=mapping(step.get("info")),
                obs=step.get("obs"),
                tool_calls=listing(step.get("tool_calls")),
                decision=_decision_index(step),
            )
        )
    return steps, any(mapping(item).get("reward") is not None for item in raw)


def _decision_index(step: Json) -> int | None:
    info = mapping(step.get("info"))
    places = (step, info, mapping(info.get("stepwise")), mapping(info.get("meta")))
    return next((n for place in places if (n := count(place.get("decision_index"))) is not None), None)


def _is_model_call(event: Json) -> bool:
    return "call_records" in event or "call_record" in event or event.get("event_type") == "lm_call"


def _trace_events(trace: Json) -> Iterator[tuple[str, Json, bool]]:
    """(path, event, opens a step) of both trace shapes, in order.

    `event_history`: a model call opens a step. `session_time_steps`: each time step is a step.
    """
    history = listing(trace.get("event_history"))
    for i, event in enumerate(map(mapping, history)):
        yield f"trace.event_history[{i}]", event, _is_model_call(event)
    if not history:
        for i, time_step in enumerate(map(mapping, listing(trace.get("session_time_steps")))):
            for j, event in enumerate(map(mapping, listing(time_step.get("events")))):
                yield f"trace.session_time_steps[{i}].events[{j}]", event, j == 0


def _steps_of_trace(trace: Json) -> tuple[list[Step], bool]:
    """As `_steps`, rebuilt from the trace: the environment events up to the next opening make a step."""
    steps: list[Step] = []
    rewarded = False
    for path, event, opens in _trace_events(trace):
        if opens or not steps:
            steps.append(Step(reward=0.0, tool_calls=_tool_calls(event)))
        if _is_model_call(event):
            continue
        step, path = steps[-1], f"{path}.reward"
        step.reward = _reward(step.reward + _reward(event.get("reward"), path), path)
        step.done |= event.get("done") is True or event.get("terminated") is True
        step.truncated |= event.get("truncated") is True
        step.info |= mapping(event.get("info"))
        rewarded |= event.get("reward") is not None
    return steps, rewarded


def _tool_calls(event: Json) -> list[Any]:
    """What the model called, in either shape of a model call: `call_records[]`, or `call_record.response`."""
    calls = [
        call
        for record in map(mapping, listing(event.get("call_records")))
        for call in listing(record.get("output_tool_calls"))
    ]
    response = mapping(mapping(event.get("call_record")).get("response"))
    choice = mapping(next(iter(listing(response.get("choices"))), None))
    return calls or listing(mapping(choice.get("message")).get("tool_calls")) or listing(response.get("tool_calls"))


def _check_step_errors(steps: list[Step], warnings: list[str]) -> None:
    for i, step in enumerate(steps):
        error = step.info.get("error")
        if (status := server_error(error)) is not None:
            raise RolloutFailure("app_error", {"call": i, "status": status})
        if error and "info_error" not in warnings:
            warnings.append("info_error")


def _outcome(top: Json, metrics: Json, rewarded: list[Step], warnings: list[str]) -> tuple[float, str]:
    """(O, its path). The first place that is not null decides, and fails if it is no number.

    rewarded: the steps, empty where none of them carries a reward.
    """
    returns = listing(metrics.get("episode_returns")) or listing(metrics.get("episode_rewards"))
    if len(returns) > 1:
        warnings.append("multiple_episodes")
    for path, value in _outcome_places(top, metrics):
        if value is not None:
            return _reward(value, path), path
    if rewarded:
        return _reward(sum(step.reward for step in rewarded), "steps[].reward"), "steps[].reward"
    if _reward_mean_is_unset(metrics):
        warnings.append("defaulted_reward_mean")
        return 0.0, "metrics.reward_mean"
    raise RolloutFailure("reward_missing")


def _reward_mean_is_unset(metrics: Json) -> bool:
    """Some versions fill in 0.0, so a zero there is believed only if nothing else is known."""
    return finite(metrics.get("reward_mean")) == 0.0


def _outcome_places(top: Json, metrics: Json) -> Iterator[tuple[str, object]]:
    reward_info = mapping(top.get("reward_info"))
    yield "reward_info.outcome_reward", reward_info.get("outcome_reward")
    yield "metrics.outcome_reward", metrics.get("outcome_reward")
    for name, holder in (("reward_info", reward_info), ("metrics", metrics)):
        objectives = mapping(holder.get("outcome_objectives"))
        yield f"{name}.outcome_objectives.reward", objectives.get("reward")
    yield _only_return(metrics, "episode_returns")
    yield "metrics.mean_return", metrics.get("mean_return")
    yield _only_return(metrics, "episode_rewards")
    yield "metrics.outcome_score", metrics.get("outcome_score")
    yield "metrics.reward_mean", None if _reward_mean_is_unset(metrics) else metrics.get("reward_mean")
    yield "outcome_reward", top.get("outcome_reward")


def _only_return(metrics: Json, name: str) -> tuple[str, object]:
    """The one return of the list; of several, `mean_return`, or their mean where the app gives none."""
    values = listing(metrics.get(name))
    if len(values) <= 1:
        return f"metrics.{name}[0]", values[0] if values else None
    if metrics.get("mean_return") is not None:
        return "metrics.mean_return", metrics["mean_return"]
    numbers = [_reward(value, f"metrics.{name}[{i}]") for i, value in enumerate(values)]
    return f"mean of metrics.{name}", sum(numbers) / len(numbers)


def _event_rewards(top: Json, metrics: Json, steps: list[Step]) -> list[float]:
    reward_info = mapping(top.get("reward_info"))
    for name, holder in (("reward_info", reward_info), ("metrics", metrics)):
        if values := listing(holder.get("event_rewards")):
            return [_reward(v, f"{name}.event_rewards[{i}]") for i, v in enumerate(values)]
    for name, holder in (("reward_info.", reward_info), ("metrics.", metrics), ("", top)):
        if values := listing(holder.get("event_objectives")):
            path = f"{name}event_objectives"
            return [_reward(mapping(v).get("reward"), f"{path}[{i}].reward") for i, v in enumerate(values)]
    return [step.reward for step in steps]
