"""What still counts after a resume (WIRE 5.2, attempts): pure rules over lines."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any, NamedTuple

from trainer.rundir.jsonl import Json


class Resumed(NamedTuple):
    """Attempt `attempt` went on after step `from_step`."""

    attempt: int
    from_step: int


def resumes_in(events: Iterable[Json]) -> list[Resumed]:
    """The resumes that `rl.resumed` events tell of."""
    found = []
    for event in events:
        data = event.get("data")
        if event.get("type") != "rl.resumed" or not isinstance(data, dict):
            continue
        from_step, attempt = data.get("from_step"), data.get("attempt", event.get("attempt"))
        if isinstance(from_step, int) and isinstance(attempt, int):
            found.append(Resumed(attempt, from_step))
    return found


def counts(line: Json, resumes: Iterable[Resumed]) -> bool:
    """A line of attempt a counts unless a later attempt resumed from a step before the line's."""
    attempt, step = line.get("attempt"), line.get("step")
    if not isinstance(attempt, int) or not isinstance(step, int):
        return True
    return not any(later.attempt > attempt and later.from_step < step for later in resumes)


def merge_metrics(lines: Iterable[Json], resumes: Iterable[Resumed] = ()) -> list[Json]:
    """One object per (attempt, step), in this order, the later value of a name winning.

    An evaluation that was played again replaces the earlier one of its iteration.
    """
    resumes = list(resumes)
    kept = [line for line in lines if counts(line, resumes)]
    last_eval = {_whole(line, "iteration", 0): _whole(line, "attempt", 1) for line in kept if "eval_step" in line}
    merged: dict[tuple[int, int], Json] = {}
    for line in kept:
        attempt = _whole(line, "attempt", 1)
        if "eval_step" in line and attempt != last_eval[_whole(line, "iteration", 0)]:
            continue
        merged.setdefault((attempt, _whole(line, "step", 0)), {}).update(line)
    return [merged[key] for key in sorted(merged)]


def merge_updates(lines: Iterable[Json]) -> Json:
    """What is known of one episode from its update lines: the last value of a field wins.

    `iteration`: whose batch it was in, from its `group` line; its row has the one that it was played for. Fields of
    `use` and of `mask` with a branch stand under `branches`, by branch number; the others at the top.
    """
    merged: Json = {}
    for line in lines:
        fields = {k: v for k, v in line.items() if k not in ("n", "attempt", "step", "iteration", "kind", "cut")}
        branch = _whole(fields, "branch")
        fields.pop("branch", None)
        if line.get("kind") == "use":
            fields["step"] = line.get("step")
        if line.get("kind") == "group" and "iteration" in line:
            fields["iteration"] = line["iteration"]
        if branch is None:
            merged.update(fields)
        else:
            merged.setdefault("branches", {}).setdefault(branch, {}).update(fields)
            if line.get("kind") == "mask":
                merged.update({key: value for key, value in fields.items() if key in ("excl", "detail")})
    return merged


def _whole(line: Json, name: str, otherwise: Any = None) -> Any:
    """A whole number of a line, which may be damaged; `otherwise` where it is none."""
    value = line.get(name)
    return value if isinstance(value, int) else otherwise
