"""Groups as they are compared: the members of one seed side by side, with what became of each. Pure.

Everything is made from index rows and what became known later; nothing needs the newest groups only.
"""

from __future__ import annotations

import math
from collections.abc import Iterable
from dataclasses import asdict, dataclass
from typing import Any

from rltui.model.episode_query import number_of, value_of
from rltui.model.episodes import EpisodeRows
from rltui.model.fates import Fates
from rltui.sources.base import Json

DEAD = 1e-6  # rewards are equal within this
WIDE_GAP = 0.5  # judge and env are then on different sides
NEAR_ROWS = 400  # rows without one of the iteration, after which the search ends


@dataclass(frozen=True, slots=True)
class Member:
    """One episode of a group. `row`: its index row with its fate."""

    row: Json

    @property
    def n(self) -> int:
        return int(self.row["n"])

    @property
    def reward(self) -> float | None:
        return value_of("reward", self.row)

    @property
    def differs(self) -> bool:
        """Whether the judge says otherwise than the environment."""
        gap = value_of("gap", self.row)
        return gap is not None and abs(gap) >= WIDE_GAP


@dataclass(frozen=True, slots=True)
class Group:
    """mean, std: of the rewards that there are (ddof 0); a member masked after the advantages counts."""

    iteration: int | None
    group: int
    seed: int | None
    mean: float | None
    std: float | None
    dead: bool
    length: float | None
    members: tuple[Member, ...]

    def as_dict(self) -> Json:
        return {**{name: value for name, value in asdict(self).items() if name != "members"},
                "members": [member.n for member in self.members]}  # fmt: skip


def near(rows: EpisodeRows, fates: Fates, n: int) -> list[Json]:
    """Rows of training of the iteration that episode n is of, found around n: they were played together."""
    own = rows.of(n)
    iteration = own.get("iteration")
    found = {n: own} if own.get("split") == "train" else {}
    for way in (-1, 1):
        at, missed = n + way, 0
        while 0 <= at < rows.recorded and missed < NEAR_ROWS:
            row = rows.of(at) if rows.counts(at) else {}
            if row.get("iteration") == iteration and row.get("split") == "train":
                found[at], missed = row, 0
            else:
                missed += 1
            at += way
    return [fates.over(found[at]) for at in sorted(found)]


def next_iteration(rows: EpisodeRows, n: int, way: int) -> int | None:
    """An episode of training of another iteration than n's, the nearest that way; None: there is none near."""
    own, at, missed = rows.of(n).get("iteration"), n + way, 0
    while 0 <= at < rows.recorded and missed < 10 * NEAR_ROWS:
        row = rows.of(at) if rows.counts(at) else {}
        if row.get("split") == "train" and row.get("iteration") not in (None, own):
            return at
        at, missed = at + way, missed + 1
    return None


def groups_of(rows: Iterable[Json]) -> list[Group]:
    """The groups among index rows, by number; of a member that was played again, the last play."""
    by_group: dict[int, dict[Any, Json]] = {}
    for row in rows:
        group = row.get("group")
        if isinstance(group, int):
            by_group.setdefault(group, {})[row.get("member")] = row
    return [_group(group, list(found.values())) for group, found in sorted(by_group.items())]


def _group(group: int, rows: list[Json]) -> Group:
    rows.sort(key=lambda row: number_of(row.get("member")) or 0)
    rewards = [reward for row in rows if (reward := number_of(row.get("R"))) is not None]
    lengths = [length for row in rows if (length := value_of("length", row)) is not None]
    mean = math.fsum(rewards) / len(rewards) if rewards else None
    std = math.sqrt(math.fsum((r - mean) ** 2 for r in rewards) / len(rewards)) if mean is not None else None
    return Group(
        rows[0].get("iteration"),
        group,
        rows[0].get("seed"),
        mean,
        std,
        len(rewards) > 1 and max(rewards) - min(rewards) <= DEAD,
        math.fsum(lengths) / len(lengths) if lengths else None,
        tuple(map(Member, rows)),
    )
