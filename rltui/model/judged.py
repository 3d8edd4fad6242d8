"""What the judge of a run said: a row an episode, and the sums over all calls. Reads only."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import asdict, dataclass, field
from typing import Any

from rltui.sources.base import RunSource
from trainer.judge.agreement import spearman
from trainer.judge.cost import spent
from trainer.judge.score import overall
from trainer.taskapp.reading import finite

Json = dict[str, Any]
_FIELDS = ("cid", "iteration", "split", "R", "O", "je", "jo", "excl")
TENTHS = 10
PAIRS = 500  # episodes of the Judge tab
_BLOCK = 1_000  # rows of the index read at a time


@dataclass(slots=True)
class Spread:
    """How the scores of a track lie: `bins` counts them by tenths from 0 to 1, the last one those beyond 1, which a
    rubric that adds up can give."""

    count: int = 0
    total: float = 0.0
    bins: Counter[int] = field(default_factory=Counter)

    def add(self, score: float) -> None:
        self.count += 1
        self.total += score
        self.bins[TENTHS if score > 1 else max(0, min(TENTHS - 1, int(score * TENTHS + 1e-9)))] += 1

    @property
    def mean(self) -> float:
        return self.total / self.count

    def as_dict(self) -> Json:
        """{scores, mean, bins: [{low, high, count}]}; `high` of those beyond 1 is null, and they stand only if any."""
        bins = [{"low": i / TENTHS, "high": (i + 1) / TENTHS, "count": self.bins[i]} for i in range(TENTHS)]
        beyond = [{"low": 1.0, "high": None, "count": self.bins[TENTHS]}] if self.bins[TENTHS] else []
        return {"scores": self.count, "mean": self.mean, "bins": [*bins, *beyond]}


@dataclass(slots=True)
class Calls:
    """Sums over calls; a call that was tried again counts each time.

    Attributes:
        failed: tries without scores, by code.
        cost_usd: None: of some the price is unknown. `estimated`: some of it is by a list of prices.
        walls: seconds of each try that went to a judge.
    """

    tries: int = 0
    cached: int = 0
    failed: Counter[str] = field(default_factory=Counter)
    tokens_in: int = 0
    tokens_out: int = 0
    cost_usd: float | None = 0.0
    estimated: bool = False
    walls: list[float] = field(default_factory=list)
    tracks: dict[str, dict[str, Spread]] = field(default_factory=dict)  # of turns and of the outcome
    began: float | None = None
    ended: float | None = None

    def add(self, line: Json) -> None:
        cached = line.get("status") == "cached"
        self.tries += not cached
        self.cached += cached
        if line.get("status") == "failed":
            self.failed[str(line.get("code") or "?")] += 1
        self.tokens_in += _count(line.get("tokens_in"))
        self.tokens_out += _count(line.get("tokens_out"))
        cost, estimated = spent(line)
        self.cost_usd = None if self.cost_usd is None or cost is None else self.cost_usd + cost
        self.estimated |= estimated
        queued, start, wall = (finite(line.get(name)) for name in ("t_queued", "t_start", "wall_s"))
        if not cached and wall is not None:
            self.walls.append(wall)
        if queued is not None:
            self.began = min(queued, self.began if self.began is not None else queued)
        if (end := (start if start is not None else queued)) is not None:
            self.ended = max(end + (wall or 0.0), self.ended or 0.0)
        if isinstance(line.get("tracks"), dict) and line.get("status") != "failed":
            kind = "turns" if line.get("kind") == "event" else "outcome"
            for name, score in line["tracks"].items():
                if finite(score) is not None:
                    self.tracks.setdefault(kind, {}).setdefault(str(name), Spread()).add(float(score))

    def track_scores(self) -> dict[str, float]:
        """Of the outcome, and of the turns (their mean) where the outcome has no such track."""
        of = {kind: {name: spread.mean for name, spread in found.items()} for kind, found in self.tracks.items()}
        return of.get("turns", {}) | of.get("outcome", {})

    def totals(self) -> Json:
        walls = sorted(self.walls)
        return {
            "tries": self.tries,
            "cached": self.cached,
            "failed": dict(self.failed),
            "tokens_in": self.tokens_in,
            "tokens_out": self.tokens_out,
            "cost_usd": self.cost_usd,
            "cost_estimated": self.estimated,
            "latency_p50_s": quantile(walls, 0.5),
            "latency_p95_s": quantile(walls, 0.95),
            "tracks": [
                {"track": name, "of": kind, **spread.as_dict()}
                for kind, found in sorted(self.tracks.items())
                for name, spread in sorted(found.items())
            ],
        }


@dataclass(frozen=True, slots=True)
class Row:
    """One judged episode. `score`: the judge's parts as the reward weighs them; `gap` = score - env."""

    n: int
    cid: str
    iteration: int | None
    split: str | None
    env: float | None
    reward: float | None
    event: float | None
    outcome: float | None
    score: float | None
    gap: float | None
    tracks: dict[str, float]
    seconds: float | None
    tries: int
    failed: dict[str, int]
    tokens_in: int
    tokens_out: int
    cost_usd: float | None
    cost_estimated: bool
    excluded: bool  # the judge gave it no score

    def as_dict(self) -> Json:
        return asdict(self)


def judged(source: RunSource, weights: tuple[float, float]) -> tuple[list[Row], Calls]:
    """Every judged episode that counts, oldest first; and all calls.

    Args:
        weights: of event and outcome in the reward.
    """
    total, by_cid = Calls(), dict[str, Calls]()
    for line in _calls(source):
        total.add(line)
        by_cid.setdefault(str(line.get("cid")), Calls()).add(line)
    rows = []
    for index in _index(source):
        calls = by_cid.get(str(index.get("cid")))
        if calls is not None:
            rows.append(_row(index, calls, weights))
    return rows, total


def _calls(source: RunSource) -> Iterator[Json]:
    part = source.judge()
    yield from part.rows
    while part.more:
        part = source.judge(part.cursor)
        yield from part.rows


def _index(source: RunSource) -> Iterator[Json]:
    count = source.episode_count()
    for start in range(0, count, _BLOCK):
        yield from source.index(start, min(start + _BLOCK, count), _FIELDS)


def _row(index: Json, calls: Calls, weights: tuple[float, float]) -> Row:
    env, event, outcome = (finite(index.get(name)) for name in ("O", "je", "jo"))
    score = overall(event, outcome, *weights)
    return Row(
        n=int(index["n"]),
        cid=str(index.get("cid")),
        iteration=index.get("iteration"),
        split=index.get("split"),
        env=env,
        reward=finite(index.get("R")),
        event=event,
        outcome=outcome,
        score=score,
        gap=None if score is None or env is None else score - env,
        tracks=calls.track_scores(),
        seconds=None if calls.began is None or calls.ended is None else max(0.0, calls.ended - calls.began),
        tries=calls.tries,
        failed=dict(calls.failed),
        tokens_in=calls.tokens_in,
        tokens_out=calls.tokens_out,
        cost_usd=calls.cost_usd,
        cost_estimated=calls.estimated,
        excluded=index.get("excl") == "judge_failed",
    )


def agreement(rows: Iterable[Row]) -> float | None:
    """Rank correlation of the judge with the environment."""
    return correlation([row.score for row in rows], [row.env for row in rows]) if (rows := list(rows)) else None


def recent(pairs: Sequence[tuple[float, float]]) -> Json:
    """{episodes, agreement} of the newest `PAIRS` (judge, task app), as the Judge tab has them."""
    pairs = pairs[-PAIRS:]
    return {"episodes": len(pairs), "agreement": spearman([x for x, _ in pairs], [y for _, y in pairs])}


def correlation(xs: Sequence[float | None], ys: Sequence[float | None]) -> float | None:
    """Spearman's, of the pairs that are whole."""
    pairs = [(x, y) for x, y in zip(xs, ys, strict=True) if x is not None and y is not None]
    return spearman([x for x, _ in pairs], [y for _, y in pairs])


def who_judges(environment: Json | None, resolved: Json | None) -> Json:
    """Who judges by what, as the run stored it; of a run without a judge, what is known. `blend`: of the reward."""
    judge, blend = (environment or {}).get("judge"), (resolved or {}).get("effective_blend")
    judge = judge if isinstance(judge, dict) else {}
    names = ("source", "provider", "model", "rubric_id", "rubric_hash", "rubric_from")
    weights = {
        k: found for k, v in (blend if isinstance(blend, dict) else {}).items() if (found := finite(v)) is not None
    }
    return {**{name: judge.get(name) for name in names}, "blend": weights}


def quantile(values: Sequence[float], share: float) -> float | None:
    """Of sorted values, the nearest one; None of none."""
    return values[min(len(values) - 1, int(share * len(values)))] if values else None


def _count(value: Any) -> int:
    return value if isinstance(value, int) and not isinstance(value, bool) else 0
