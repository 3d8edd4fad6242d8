"""D06, D07 and D28: the judge, and the parts that the reward is blended of."""

from __future__ import annotations

from collections import Counter
from dataclasses import replace

from rltui.doctor.maths import mean, slope
from rltui.doctor.record import Record
from rltui.doctor.rule import Bands, Reading, State, none, over, percent, rule, under, worst

UNPARSABLE = "judge_unparsable"
OF_A_MODEL = ("judge.options.max_concurrency", "judge.options.model")  # rules in code have no use for them
PARTS = ("env", "event", "outcome")


@rule(
    "D06",
    "judge against task",
    "The policy learns to please the judge, not to do the task.",
    ("judge.reward_blend", "judge.options.rubric_id"),
    metrics=("judge/agreement", "reward/outcome", "reward/env"),
    window="20 iterations",
)
def agreement(record: Record, band: Bands) -> Reading:
    window = int(band["window"])
    found = record.recent("judge/agreement", window)
    if len(found) < 5:
        return none("needs 5 iterations" if found or record.judge_calls else "no judge was asked")
    here = mean(found)
    apart = ""
    lines = [slope(*zip(*points, strict=True)) for points in _pair(record, window)]
    if len(lines) == 2 and all(line is not None and abs(line.rise) > 2 * line.error for line in lines):
        env, judge = (line.rise for line in lines if line is not None)
        if env < 0 < judge:
            apart = " The judge's score rises while the task's reward falls."
    state = under(here, band["watch"], band["act"])
    return Reading(
        State.WATCH if apart and state is State.OK else state,
        here,
        f"{here:.2f}",
        f"> {band['watch']:g}",
        f"The rank correlation of the judge's scores with the task's reward is {here:.2f}, the mean of "
        f"{len(found)} iterations.{apart}",
    )


def _pair(record: Record, window: int) -> list[list[tuple[float, float]]]:
    """The task's reward and the judge's score, where both were recorded."""
    env = record.recent_points("reward/env", window)
    judge = record.recent_points("reward/outcome", window) or record.recent_points("reward/event", window)
    return [env, judge] if min(len(env), len(judge)) >= 8 else []


@rule(
    "D07",
    "idle reward parts",
    "A part of the reward has weight and adds nothing: it is constant, or was never recorded.",
    ("judge.reward_blend", "training.rewards.step_rewards_enabled"),
    metrics=tuple(f"reward/{part}" for part in PARTS),
    window="20 iterations",
)
def parts(record: Record, band: Bands) -> Reading:
    window = int(band["window"])
    blend = record.resolved.get("effective_blend")
    weights = {part: blend.get(part) or 0 for part in PARTS} if isinstance(blend, dict) else {}
    heavy = [part for part, weight in weights.items() if isinstance(weight, int | float) and weight > 0]
    if not heavy:
        return none("no weights of the parts")
    if record.count("reward/mean") < window:
        return none(f"needs {window} iterations, has {record.count('reward/mean')}")
    idle = {}
    for part in heavy:
        values = record.recent(f"reward/{part}", window)
        if not values:
            idle[part] = "was never recorded"
        elif max(values) - min(values) <= 1e-9:
            idle[part] = f"is {values[-1]:g} all the time"
    told = "; ".join(f"{part} (weight {weights[part]:g}) {why}" for part, why in idle.items())
    return Reading(
        State.WATCH if idle else State.OK,
        float(len(idle)),
        f"{len(idle)} of {len(heavy)} idle",
        "none idle",
        f"{told}." if told else f"All parts with weight move: {', '.join(heavy)}.",
        metric=f"reward/{next(iter(idle), heavy[0])}",
    )


@rule(
    "D28",
    "judge failures",
    "The judge is at its limit, hangs, is a slow model, or does not answer in the form that it is asked for.",
    ("judge.timeout_s", "judge.options.max_concurrency", "judge.options.model"),
    metrics=("judge/failed", "judge/latency", "time/wait_for_judge"),
    window="20 iterations",
)
def answers(record: Record, band: Bands) -> Reading:
    window = int(band["window"])
    failed, latency = record.recent("judge/failed", window), record.recent("judge/latency", window)
    if not failed and not latency and not record.judge_calls:
        return none("no judge was asked")
    found = worst(
        _tries(record, band),
        _failed(record, failed, band),
        _latency(record, latency, band),
        _waited(record, window, band),
        _crowded(record),
    )
    if record.value("judge.type") != "rule":
        return found
    keys = tuple(key for key in found.keys or answers.keys if key not in OF_A_MODEL)
    return replace(found, keys=keys or ("judge.options.rubric_overrides",))


def _failed(record: Record, failed: list[float], band: Bands) -> Reading | None:
    per_iteration = record.derived("E")
    if not failed or not per_iteration:
        return None
    share = sum(failed) / (sum(failed) + per_iteration * len(failed))
    return Reading(
        over(share, band["failed"], band["act"]),
        share,
        percent(share),
        f"< {percent(band['failed'])}",
        f"{percent(share)} of the episodes got no score; they are left out, never counted as 0.",
        title="episodes without a score",
    )


def _tries(record: Record, band: Bands) -> Reading | None:
    """Of the newest tries, whether or not an iteration has closed: an episode may get its score at a later one."""
    calls = record.judge_calls
    if not calls:
        return None
    codes = Counter(code for _, code in calls if code)
    failed = sum(codes.values())
    unparsable = codes[UNPARSABLE] > failed / 2
    words = {UNPARSABLE: "replies could not be read"}
    told = ", ".join(f"{count} {words.get(code, f'by {code}')}" for code, count in codes.most_common(3))
    share = failed / len(calls)
    return Reading(
        over(share, band["calls"], band["calls_act"]),
        share,
        percent(share),
        f"< {percent(band['calls'])} of tries",
        f"{failed} of the newest {len(calls)} tries at the judge gave no score{f': {told}' if told else ''}.",
        keys=("judge.options.rubric_overrides", "judge.options.model") if unparsable else (),
    )


def _latency(record: Record, latency: list[float], band: Bands) -> Reading | None:
    limit = record.number("judge.timeout_s")
    if not latency or not limit:
        return None
    slow = max(latency)  # each is the mean of a batch, so the largest stands for the slow ones
    return Reading(
        over(slow / limit, band["latency"]),
        slow,
        f"{slow:.1f} s",
        f"< {band['latency'] * limit:.0f} s",
        f"A judgement takes up to {slow:.1f} s in the mean of a batch; the limit is {limit:g} s.",
        metric="judge/latency",
        keys=("judge.timeout_s", "judge.options.model"),
        title="seconds of a judgement",
    )


def _waited(record: Record, window: int, band: Bands) -> Reading | None:
    share = record.share("time/wait_for_judge", "time/step", window)
    if share is None:
        return None
    return Reading(
        over(share, band["wait"]),
        share,
        f"{percent(share)} of step",
        f"< {percent(band['wait'])}",
        f"{percent(share)} of the step is waiting for the judge.",
        metric="time/wait_for_judge",
        keys=("judge.options.max_concurrency", "judge.options.model"),
        title="wait for the judge",
    )


def _crowded(record: Record) -> Reading | None:
    if record.value("judge.type") == "rule":
        return None
    limit, busy = record.number("judge.options.max_concurrency"), record.part("pipeline", "judge_in_flight")
    queued = record.part("pipeline", "judge_queued") or 0
    if not limit or not isinstance(busy, int | float) or busy < limit or queued < limit:
        return None
    return Reading(
        State.WATCH,
        busy / limit,
        f"{busy:g} of {limit:g}",
        "below limit",
        f"{busy:g} judgements are under way, the limit, and {queued:g} wait.",
        keys=("judge.options.max_concurrency",),
        title="judgements under way",
    )
