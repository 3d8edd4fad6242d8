"""One of the runs that are compared: its model, its config and its evaluations, read a slice at a time."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from rltui.charts.smooth import Ema, default_weight
from rltui.model.along import TOKENS, Along
from rltui.model.evaluations import Evaluations
from rltui.model.ran_with import ran_with
from rltui.model.run import RunModel
from rltui.sources.base import RunSource, Unreadable
from rltui.text import clean

if TYPE_CHECKING:
    from rltui.cli.config.values import Leaf

REWARD, EVAL = "reward/mean", "eval/reward_mean"
_ID_LEAST = 4  # characters of a job id that tell two runs of one label apart, at least


class ComparedRun:
    """`refresh` belongs to one thread; others may read what it has found."""

    def __init__(self, path: Path, source: RunSource) -> None:
        self.path = path
        self.source = source
        self.model = RunModel(source)
        self._follow_model()
        self.values: Mapping[str, Leaf] | None = None  # of its config; None: not known
        self.problem = ""  # why something of it cannot be read
        self.whole = False  # whether all that there was has been read
        self._config_of: object = None  # attempt whose config was read, and how many requests were done by then

    def _follow_model(self) -> None:
        self.metrics = self.model.metrics
        self.along, self.evaluations = Along(self.metrics), Evaluations(self.model.episodes)
        self._reward: Ema | None = None

    @property
    def reward(self) -> float | None:
        """Smoothed as its chart is."""
        last = self._reward.pyramid.last() if self._reward is not None else None
        return last[1] if last is not None else None

    def refresh(self, budget_s: float = 0.05) -> tuple[bool, bool]:
        """(whether there is something new, whether there is more to read). Never raises Unreadable: see `problem`."""
        model, before = self.model, (self.values, self.problem, self.whole)
        change = model.refresh(budget_s / 2)
        if self.metrics is not model.metrics:  # another run has taken the folder
            self._follow_model()
        self.along.update(model.status)
        self._smooth()
        some = more = False
        problem = model.error or ""
        try:
            self._read_config()
            some, more = self.evaluations.refresh(budget_s / 2)
        except Unreadable as error:
            problem = problem or clean(str(error), 500)
        if not problem and model.status is None and not change.more:
            problem = "it has no status.json yet"
        self.problem = problem
        self.whole = self.whole or not (change.more or more)
        return bool(change) or some or before != (self.values, self.problem, self.whole), change.more or more

    def _smooth(self) -> None:
        rewards = self.metrics.get(REWARD)
        if self._reward is None and rewards is not None:
            self._reward = Ema(rewards, default_weight(REWARD))
        while self._reward is not None and self._reward.update():
            pass

    def _read_config(self) -> None:
        status = self.model.status
        if status is None:
            return
        events = self.model.events
        changes = sum(event.get("type") == "rl.control.done" for event in events)  # some of them set a key
        known = status.get("job_id"), status.get("attempt"), changes
        if known == self._config_of:
            return
        document = self.source.document("resolved.json")
        values = document.get("values") if document is not None else None
        if isinstance(values, Mapping):
            from rltui.cli.config.values import leaves

            self.values, self._config_of = leaves(ran_with(values, events, status.get("attempt"))), known


@dataclass(frozen=True)
class Outcome:
    """What became of one run; what is not known is None. `reward` is smoothed as its chart is, `best_*` is not.

    `eval_*` are of the evaluation that is compared: mean over its seeds, `eval_step` updates done at its start.
    """

    name: str
    path: str
    state: str
    end_reason: str | None
    error: str | None
    step: int | None
    steps: int | None
    episodes: int | None
    tokens: float | None
    elapsed_s: float | None
    reward: float | None
    best_reward: float | None
    eval_reward: float | None
    eval_step: int | None
    eval_seeds: int
    eval_unscored: int
    best_eval: float | None
    best_eval_step: float | None

    def json(self) -> dict[str, Any]:
        """For --json."""
        return asdict(self)


def outcome(run: ComparedRun, at: int | None = None) -> Outcome:
    """`at`: the newest evaluation at or before this step counts, else the newest of all."""
    model = run.model
    status, metrics = model.status or {}, run.metrics
    totals, episodes = status.get("totals") or {}, status.get("episodes") or {}
    error = status.get("error") or {}
    rewards, evals = metrics.get(REWARD), metrics.get(EVAL)
    best = rewards.bounds(float("-inf"), float("inf")) if rewards is not None else None
    evaluation = run.evaluations.at(at)
    top = _highest(evals.points(0, len(evals))) if evals is not None else None
    problem = run.problem if model.status is None else ""
    return Outcome(
        name=model.name,
        path=str(run.path),
        state="unreadable" if problem else clean(status.get("state") or "starting", 20),
        end_reason=status.get("end_reason"),
        error=run.problem or error.get("message"),
        step=status.get("step"),
        steps=totals.get("steps"),
        episodes=episodes.get("accepted"),
        tokens=run.along.at(TOKENS, metrics.step),
        elapsed_s=status.get("elapsed_s"),
        reward=run.reward,
        best_reward=best[1] if best else None,
        eval_reward=evaluation.mean if evaluation is not None else None,
        eval_step=evaluation.step if evaluation is not None else None,
        eval_seeds=len(evaluation.seeds) if evaluation is not None else 0,
        eval_unscored=evaluation.unscored if evaluation is not None else 0,
        best_eval=top[1] if top else None,
        best_eval_step=top[0] if top else None,
    )


def _highest(points: tuple[Sequence[float], Sequence[float]]) -> tuple[float, float] | None:
    """(x, y) of the largest finite y, the first of equals."""
    found = [(y, -x) for x, y in zip(*points, strict=True) if abs(y) < float("inf")]
    return (-max(found)[1], max(found)[0]) if found else None


def short_names(names: Sequence[str]) -> list[str]:
    """`<label>` of each `<label>-<job id>`; where a label comes twice, with the end of the job id."""
    parts = [name.rpartition("-rl_") for name in names]
    labels = [label or name for (label, _, _), name in zip(parts, names, strict=True)]
    ids = [tail if found else "" for _, found, tail in parts]
    longest = max(map(len, ids), default=0)
    for cut in range(_ID_LEAST, longest + 1):
        shown = [
            f"{label}~{id[-cut:]}" if labels.count(label) > 1 and id else label
            for label, id in zip(labels, ids, strict=True)
        ]
        if len(set(shown)) == len(shown):
            return shown
    return labels if len(set(labels)) == len(labels) else list(names)
