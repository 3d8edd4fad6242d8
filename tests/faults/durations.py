"""Durations of a record, which no clock that jumps may touch: none is below 0 or longer than the run was."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from itertools import pairwise
from typing import Any

Json = dict[str, Any]
ROUNDED_S = 0.1  # what rounding and two readings of a clock may add


def wrong_durations(
    status: Json, texts: list[Json], index: list[Json], judged: list[Json], lived_s: float
) -> Iterator[str]:
    """A sentence for each kind.

    Args:
        texts, index, judged: lines of the episodes' text, of the index and of the judge.
        lived_s: real seconds of all attempts.
    """
    most = lived_s + ROUNDED_S

    def fits(*seconds: float | None) -> bool:
        return all(each is None or -ROUNDED_S <= each <= most for each in seconds)

    if wrong := [row["n"] for row in index if not fits(row["wall"])]:
        yield f"index: episodes that took no such time: {wrong[:5]}"
    if wrong := [line["n"] for line in texts if not fits(*(play["wall"] for play in line["tries"] or ()))]:
        yield f"text: tries that took no such time, of episodes {wrong[:5]}"
    if wrong := [line["n"] for line in texts if not _adds_up(line["timings"], fits)]:
        yield f"text: timings that are none, of episodes {wrong[:5]}"
    if wrong := [line["n"] for line in texts if not all(_in_order(turn) for turn in line["turns"])]:
        yield f"text: a turn ends before it begins, in episodes {wrong[:5]}"
    if wrong := [line["n"] for line in judged if not fits(line["wall_s"])]:
        yield f"judge: calls that took no such time, of episodes {wrong[:5]}"
    spent = {"elapsed_s": status["elapsed_s"], "wall_s": (status["results"] or {}).get("wall_s")}
    if not fits(*spent.values()):
        yield f"status: {spent} of a run that lived for {lived_s:.1f} s"


def _adds_up(timings: Json, fits: Callable[..., bool]) -> bool:
    parts = sum(seconds for name, seconds in timings.items() if name != "total")
    return fits(*timings.values()) and bool(parts <= timings["total"] + 1.0)


def _in_order(turn: Json) -> bool:
    times = [turn[name] for name in ("t_queued", "t_start", "t_first", "t_end") if turn.get(name) is not None]
    return all(a <= b + ROUNDED_S for a, b in pairwise(times))
