"""D04 and D05: what the evaluation says, and whether it can say so much."""

from __future__ import annotations

from math import sqrt

from rltui.doctor.maths import mean
from rltui.doctor.record import Record
from rltui.doctor.rule import Bands, Reading, State, none, over, rule, times
from rltui.text import clean
from rltui.words import short

MEAN, STD, COUNT = "eval/reward_mean", "eval/reward_std", "eval/episodes"
# How training always samples, whatever these keys of [policy] say: evaluation alone follows them.
PLAIN: dict[str, str | int] = {"top_p": 1, "top_k": "off", "repetition_penalty": 1}


def independent(record: Record, episodes: float) -> float:
    """Episodes that tell something of their own: greedy repeats of one seed are one."""
    seeds = record.value("evaluation.seeds")
    if record.number("evaluation.temperature") == 0 and isinstance(seeds, list) and seeds:
        return min(episodes, float(len(set(map(str, seeds)))))
    return episodes


def standard_error(record: Record) -> tuple[float, float] | None:
    """Of the newest evaluation, and from how many independent episodes; None: not recorded."""
    std, episodes = record.last(STD), record.last(COUNT) or record.number("evaluation.instances")
    if std is None or not episodes or episodes < 2:
        return None
    n = independent(record, episodes)
    return max(std / sqrt(n), 0.5 / n), n


def ways_of_sampling(record: Record) -> str:
    """What evaluation does otherwise than training, each with both values; empty: nothing is known to differ."""
    here, there = record.number("policy.temperature"), record.number("evaluation.temperature")
    if here is None or there is None:
        return ""
    differ = [f"temperature {here:g} and {there:g}"] if here != there else []
    for key, plain in PLAIN.items() if there > 0 else ():  # greedy play has no use for them
        value = record.number(f"policy.{key}")
        if value is not None and value != plain:
            differ.append(f"{key} {plain} and {value:g}")
    mode, other = (record.value(f"{part}.thinking_mode") for part in ("rollout", "evaluation"))
    if other is not None and other != mode:
        differ.append(f"thinking_mode {clean(mode or 'not set', 20)} and {clean(other, 20)}")
    return f" Training and evaluation sample with {', '.join(differ)}." if differ else ""


@rule(
    "D04",
    "training over evaluation",
    "It learns the training seeds by heart, or evaluation samples in another way.",
    ("evaluation.seeds", "evaluation.temperature", "data.seed_count"),
    metrics=(MEAN, "reward/mean"),
    window="10 iterations",
)
def ahead(record: Record, band: Bands) -> Reading:
    points, error = record.recent_points(MEAN, 1), standard_error(record)
    if not points or error is None:
        return none("no evaluation yet")
    step, held_out = points[0]
    train = record.at(min(record.step, int(step))).recent("reward/mean", 10)
    if step < 1 or len(train) < 5:
        return none("needs 5 iterations before")
    ahead = (mean(train) - held_out) / error[0]
    return Reading(
        over(ahead, band["watch"], band["act"]),
        ahead,
        f"{ahead:+.1f} errors",
        f"< {band['watch']:g} errors",
        f"At step {step:.0f} training has {short(mean(train))}, evaluation {short(held_out)}, give or take "
        f"{short(error[0])}.{ways_of_sampling(record)}",
    )


@rule(
    "D05",
    "evaluation error",
    "Too few different evaluation episodes to tell the change from chance.",
    ("evaluation.instances", "evaluation.seeds"),
    metrics=(MEAN, STD, COUNT),
    window="all evaluations",
)
def large_enough(record: Record, band: Bands) -> Reading:
    error, first, recent = standard_error(record), record.first(MEAN, 1), record.recent(MEAN, 50)
    if error is None or not first or record.count(MEAN) < 2:
        return none("needs 2 evaluations")
    change = max(recent) - first[0]
    want = f"< {times(band['share'])} gain"
    told = f"{error[1]:.0f} different episodes give a standard error of {short(error[0])}"
    if change <= 0:
        return Reading(State.OK, None, f"± {short(error[0])}", want, f"{told}; no gain is claimed yet.")
    share = error[0] / change
    return Reading(
        over(share, band["share"]),
        share,
        times(min(share, 99.0)),
        want,
        f"{told}; the gain over the first evaluation is {short(change)}.",
    )
