"""D27: the task app."""

from __future__ import annotations

from rltui.doctor.maths import quantile
from rltui.doctor.record import Record
from rltui.doctor.rule import Bands, Reading, State, none, over, percent, rule, times, worst
from trainer.taskapp.codes import THE_APPS

WALLS = 50  # episodes, at least, at the start and now


@rule(
    "D27",
    "task app failures",
    "The task app fails or is overloaded. Its failures are left out and never count as reward 0.",
    ("services.task_url", "rollout.timeout_s", "rollout.max_concurrent_rollouts"),
    metrics=tuple(f"error/{code}" for code in THE_APPS),
    window="20 iterations",
)
def holds(record: Record, band: Bands) -> Reading:
    window, size = int(band["window"]), record.derived("E")
    iterations = min(window, record.count("reward/mean"))
    parts: list[Reading | None] = [_slower(record, band)]
    if iterations >= 3 and size:
        first = record.recent_points("reward/mean", iterations)
        since = first[0][0] if first else 0
        counts = {
            code: sum(y for x, y in record.recent_points(f"error/{code}", iterations) if x >= since)
            for code in THE_APPS
        }
        share = sum(counts.values()) / (sum(counts.values()) + size * iterations)
        code = max(counts, key=lambda code: counts[code])
        often = f", most often {code}" if counts[code] else ""
        parts.append(
            Reading(
                over(share, band["watch"], band["act"]),
                share,
                percent(share),
                f"< {percent(band['watch'])}",
                f"{percent(share)} of the episodes failed in the task app{often}.",
                metric=f"error/{code}",
                keys=("rollout.timeout_s", "rollout.max_concurrent_rollouts") if code == "timeout" else (),
            )
        )
    found = [part for part in parts if part is not None]
    if not found:
        return none("needs 3 iterations")
    return worst(*sorted(found, key=lambda part: part.state is State.OK and part.metric == ""))


def _slower(record: Record, band: Bands) -> Reading | None:
    first, last = record.walls
    if min(len(first), len(last)) < WALLS:
        return None
    start, here = quantile(first, 0.95), quantile(last, 0.95)
    if start <= 0:
        return None
    return Reading(
        over(here / start, band["slower"]),
        here / start,
        f"p95 {times(here / start)}",
        f"< {times(band['slower'])}",
        f"The slowest 5 % of the episodes take {here:.1f} s or more; at first it was {start:.1f} s.",
        keys=("rollout.max_concurrent_rollouts", "rollout.timeout_s"),
        title="length of an episode",
    )
