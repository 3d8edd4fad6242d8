"""D01 to D03: whether there is something to learn from, and whether it is learned."""

from __future__ import annotations

from rltui.doctor.maths import mean, slope
from rltui.doctor.record import Record
from rltui.doctor.rule import Bands, Reading, State, none, over, percent, rule
from rltui.words import short

REWARD = "reward/mean"
ZERO, GOOD, BAD = "reward/frac_zero_std", "reward/frac_all_good", "reward/frac_all_bad"


def flat(record: Record, steps: int, errors: float) -> bool | None:
    """Whether the reward does not rise by more than so many standard errors; None: too few points."""
    points = record.within(REWARD, steps)
    line = slope(*zip(*points, strict=True)) if len(points) >= 8 else None
    return None if line is None else line.rise <= errors * line.error


@rule(
    "D01",
    "zero-variance groups",
    "The tasks are too easy or too hard now: all members of a group get the same reward, and such a group teaches "
    "nothing.",
    ("training.group_size", "rollout.max_refill_groups", "rollout.env_config"),
    metrics=(ZERO, GOOD, BAD),
    window="20 iterations",
)
def zero_variance(record: Record, band: Bands) -> Reading:
    dead = record.recent(ZERO, int(band["window"]))
    if len(dead) < 5:
        return none(f"needs 5 iterations, has {len(dead)}")
    share = mean(dead)
    parts = [(word, record.recent(name, int(band["window"]))) for word, name in (("good", GOOD), ("bad", BAD))]
    split = ", ".join(f"{percent(mean(values))} all {word}" for word, values in parts if values)
    return Reading(
        over(share, band["watch"], band["act"]),
        share,
        percent(share),
        f"< {percent(band['watch'])}",
        f"{percent(share)} of the groups have equal rewards{f' ({split})' if split else ''}.",
    )


@rule(
    "D02",
    "reward trend",
    "The reward is flat: a weak signal, a rate that is too low, or stale weights (see D01, D18, D21).",
    ("training.learning_rate", "training.rewards.step_rewards_enabled"),
    metrics=(REWARD,),
    window="50 steps",
)
def rising(record: Record, band: Bands) -> Reading:
    window = int(band["window"])
    points = record.within(REWARD, window)
    if record.step < window:
        return none(f"needs {window} steps, has {record.step}")
    if len(points) < 8:
        return none(f"needs 8 values, has {len(points)}")
    line = slope(*zip(*points, strict=True))
    assert line is not None
    errors = line.rise / line.error if line.error else (99.0 if line.rise > 0 else 0.0)
    solved = record.recent(GOOD, 10)
    want = f"> {band['errors']:g} errors"
    measured = f"{max(-99.0, min(99.0, errors)):+.1f} errors"
    if solved and mean(solved) >= band["solved"]:
        return Reading(State.OK, errors, measured, want, "Nearly every group has full reward: nothing is left to rise.")
    return Reading(
        State.OK if errors > band["errors"] else State.WATCH,
        errors,
        measured,
        want,
        f"Over {window} steps the reward changed by {line.rise * window:+.3f}, give or take {line.error * window:.3f}.",
    )


@rule(
    "D03",
    "drop from the best",
    "The policy got worse. Go back to the last good checkpoint, with a lower rate.",
    ("training.learning_rate",),
    metrics=(REWARD,),
    window="30 iterations",
)
def dropping(record: Record, band: Bands) -> Reading:
    window = int(band["window"])
    if record.count(REWARD) < 2 * window:
        return none(f"needs {2 * window} iterations, has {record.count(REWARD)}")
    means = [mean(part) for part in record.slices(REWARD, window) if len(part) * 2 >= window]
    now = record.recent(REWARD, window)
    if not means or not now:
        return none("its start is not in sight")
    best, here = max(means), mean(now)
    size = max(abs(best), best - min(means))
    drop = max(0.0, best - here) / size if size > 0 else 0.0
    saved = record.part("best", "step")
    back = f" The best checkpoint is that of step {saved}." if isinstance(saved, int) and saved < record.step else ""
    return Reading(
        over(drop, band["watch"], band["act"]),
        drop,
        percent(drop),
        f"< {percent(band['watch'])} drop",
        f"The reward is {short(here)} now and was {short(best)} at its best.{back if drop > band['watch'] else ''}",
    )
