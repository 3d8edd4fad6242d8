"""Episodes of a job: found by what they are, and one of them whole (WIRE 3.2, 5.6)."""

from __future__ import annotations

from typing import Any, NamedTuple

from starlette.requests import Request
from starlette.responses import Response

from rltui.model.fates import Fates
from rltui.server import params
from rltui.server.answers import Refused
from rltui.server.reading import OpenRun, answered
from rltui.sources.base import Json, RunSource

MAX_PAGE = 5_000
ROWS = 4_000  # decoded at a time
MAX_SCANNED = 100_000  # rows looked at for one answer
MAX_ID = 300


class Wanted(NamedTuple):
    """What an episode has to be; None: anything."""

    iteration: int | None
    step: int | None
    attempt: int | None
    group: int | None
    split: str | None
    code: str | None  # why it was left out
    least: float | None  # of its reward
    most: float | None

    def fits(self, row: Json) -> bool:
        for name, value in (
            ("iteration", self.iteration),
            ("step", self.step),
            ("attempt", self.attempt),
            ("group", self.group),
            ("split", self.split),
            ("excl", self.code),
        ):
            if value is not None and row.get(name) != value:
                return False
        if self.least is None and self.most is None:
            return True
        reward: Any = row.get("R")
        if type(reward) not in (int, float):
            return False
        return (self.least is None or reward >= self.least) and (self.most is None or reward <= self.most)


async def rollouts(request: Request, run: OpenRun) -> Response:
    """`next` goes into `after`; null: that is all there is by now."""
    wanted = Wanted(
        iteration=params.count(request, "iteration"),
        step=params.count(request, "step"),
        attempt=params.count(request, "attempt"),
        group=params.count(request, "group"),
        split=params.choice(request, "split", ("train", "eval")),
        code=params.text(request, "code"),
        least=params.real(request, "min_reward"),
        most=params.real(request, "max_reward"),
    )
    after, limit = params.count(request, "after", -1), params.limit(request, 50, MAX_PAGE)

    def read() -> Json:
        fates = None
        if wanted.code is not None:  # it may have become known later
            fates = run.kept("fates", lambda: Fates(run.source))
            for _ in fates.refresh():
                pass
        rows, following = _found(run.source, fates, -1 if after is None else after, limit, wanted)
        numbers = {row["n"] for row in rows}
        groups = [group for group in run.reader.groups() if not numbers.isdisjoint(_members(group))]
        return {"rollouts": [_with_updates(run.source, row) for row in rows], "groups": groups, "next": following}

    return await answered(request, run, read)


def _found(
    source: RunSource, fates: Fates | None, after: int, limit: int, wanted: Wanted
) -> tuple[list[Json], int | None]:
    found: list[Json] = []
    count = source.episode_count()
    end = min(count, after + 1 + MAX_SCANNED)
    for n0 in range(after + 1, end, ROWS):
        for row in source.index(n0, min(n0 + ROWS, end)):
            if wanted.fits(row if fates is None else fates.over(row)):
                found.append(row)
                if len(found) == limit:
                    return found, row["n"] if row["n"] + 1 < count else None
    return found, end - 1 if end < count else None


def _members(group: Json) -> list[int]:
    members = group.get("members")
    return [n for n in members if type(n) is int] if isinstance(members, list) else []


def _with_updates(source: RunSource, row: Json) -> Json:
    later = source.updates(row["n"])
    return {**row, "excl": row.get("excl") or later.get("excl"), "adv": later.get("adv"), "updates": later}


async def rollout(request: Request, run: OpenRun) -> Response:
    """The text line of an episode, its `updates`, and with `tokens=1` the arrays of each of its branches."""
    wanted, tokens = request.path_params["cid"], params.flag(request, "tokens")

    def read() -> Json:
        n = _number(run.source, wanted)
        episode, later = run.source.episode(n), run.source.updates(n)
        if episode is None:
            raise Refused(404, "text_removed", f"the text of episode {n} is gone; its numbers are among the rollouts")
        found = {**episode, "excl": episode.get("excl") or later.get("excl"), "updates": later}
        if tokens:
            found["tokens"] = _tokens(run.source, episode, later)
        return found

    return await answered(request, run, read)


def _number(source: RunSource, wanted: str) -> int:
    """By its correlation id, or by its number. The newest are looked at first."""
    count = source.episode_count()
    if wanted.isdecimal() and len(wanted) < 16 and int(wanted) < count:
        return int(wanted)
    if len(wanted) <= MAX_ID:
        for n1 in range(count, 0, -ROWS):
            for row in source.index(max(0, n1 - ROWS), n1, ("cid",)):
                if row.get("cid") == wanted:
                    return int(row["n"])
    raise Refused(404, "not_found", f"no episode {wanted[:100]!a} in this run")


def _tokens(source: RunSource, episode: Json, later: Json) -> list[Json]:
    """Of each branch what the engine recorded and what the learner added; `removed`: the arrays are gone."""
    found: list[Json] = []
    branches = episode.get("branches")
    for i, branch in enumerate(branches if isinstance(branches, list) else []):
        learned = (later.get("branches") or {}).get(i) or {}
        arrays: dict[str, Any] = {}
        removed = False
        for ref in (branch.get("arr") if isinstance(branch, dict) else None, learned.get("arr")):
            block = source.tokens(ref) if ref is not None else {}
            removed = removed or block is None
            arrays |= block or {}
        found.append({"branch": i, "removed": removed, "arrays": arrays})
    return found
