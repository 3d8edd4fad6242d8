"""Two to six runs against one of them, the baseline: what the Compare screen shows and `rltui compare` prints."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from rltui.charts.parts import Mark
from rltui.model.compared import EVAL, REWARD, ComparedRun, Outcome, outcome, short_names
from rltui.model.config_diff import Key, keys
from rltui.model.evaluations import Evaluation
from rltui.model.marks import marks
from rltui.model.metric_view import ordered
from rltui.model.overlay import Overlay
from rltui.model.paired import Paired, differs, paired, verdict

LEAST, MOST = 2, 6  # runs
MOST_NAMED = 4  # keys in a sentence
# Curves that a person looks at first; the others follow in their groups.
LEADING = (REWARD, EVAL, "entropy", "length/mean", "reward/frac_zero_std", "optim/grad_norm")
_EVALUATED_BY = "evaluation."  # keys of the config that say how a run is evaluated
_REWARDED_BY = (  # and what its reward is
    "judge.enabled",
    "judge.type",
    "judge.reward_blend",
    "judge.event_aggregation",
    "judge.options.event",
    "judge.options.outcome",
    "judge.options.model",
    "judge.options.rubric_",
    "judge.options.tracks",
    "judge.options.weights",
    "training.rewards.",
    "training.step_rewards_",
)


@dataclass(frozen=True)
class Seed:
    """One evaluation seed: its mean reward in each run, None where it has none."""

    seed: int
    rewards: tuple[float | None, ...]

    def difference(self, baseline: int) -> float:
        """The largest difference from the baseline, 0 where there is none to be had."""
        base = self.rewards[baseline]
        known = [abs(reward - base) for reward in self.rewards if reward is not None] if base is not None else []
        return max(known, default=0.0)


@dataclass(frozen=True)
class Missing:
    """A metric that some of the runs do not have."""

    name: str
    runs: tuple[int, ...]


class Comparison:
    """`baseline` is the place of a run; evaluations count at or before step `at`, None: the newest of each run."""

    def __init__(self, runs: Sequence[ComparedRun]) -> None:
        self.runs = tuple(runs)
        self.names = short_names([run.model.name for run in runs])
        self.baseline = 0
        self.at: int | None = None
        self.overlay = Overlay(self.runs)

    def outcomes(self) -> list[Outcome]:
        return [outcome(run, self.at) for run in self.runs]

    # Config

    def config(self) -> list[Key]:
        """Every key, in the order of the configs."""
        unknown = self.config_unknown()
        return keys([None if i in unknown else run.values for i, run in enumerate(self.runs)])

    def config_unknown(self) -> list[int]:
        """Runs whose config was not recorded: a resolved one has every key, but for those of free tables."""
        counts = [len(run.values or ()) for run in self.runs]
        return [i for i, run in enumerate(self.runs) if run.values is None or 2 * counts[i] < max(counts)]

    # Curves

    def metrics(self) -> list[str]:
        """Names that any of the runs has, as they are listed."""
        names = ordered({name for run in self.runs for name in run.metrics.names()})
        return [name for name in LEADING if name in names] + [name for name in names if name not in LEADING]

    def missing(self) -> list[Missing]:
        """Metrics that a run with metrics does not have."""
        known = {i: set(run.metrics.names()) for i, run in enumerate(self.runs) if len(run.metrics)}
        names = {name for own in known.values() for name in own}
        lacking = {name: tuple(i for i, own in known.items() if name not in own) for name in names}
        return [Missing(name, lacking[name]) for name in ordered(names) if lacking[name]]

    def marks(self) -> tuple[Mark, ...]:
        """What was done to the runs, along the axis of the curves."""
        found = []
        for i, run in enumerate(self.runs):
            for mark in marks(run.model.events):
                x = self.overlay.at(i, mark.x)
                if x is not None:
                    found.append(Mark(x, f"{self.names[i]}: {mark.label}"))
        return tuple(sorted(found, key=lambda mark: mark.x))

    # Evaluations

    def evaluations(self) -> list[Evaluation | None]:
        """Of each run, the one that is compared."""
        return [run.evaluations.at(self.at) for run in self.runs]

    def over_time(self, run: int) -> list[Evaluation]:
        """The evaluations of a run that count, oldest first."""
        return [one for one in self.runs[run].evaluations.found if self.at is None or one.step <= self.at]

    def steps(self) -> list[int]:
        """Where any run was evaluated."""
        return sorted({one.step for run in self.runs for one in run.evaluations.found})

    def seeds(self) -> list[Seed]:
        """Every seed that any run was evaluated on."""
        found = [one.rewards if one is not None else {} for one in self.evaluations()]
        return [
            Seed(seed, tuple(rewards.get(seed) for rewards in found))
            for seed in sorted({seed for rewards in found for seed in rewards})
        ]

    def tests(self) -> list[Paired | None]:
        """Each run against the baseline; None for the baseline itself."""
        found = [one.rewards if one is not None else {} for one in self.evaluations()]
        base = found[self.baseline]
        return [None if i == self.baseline else paired(base, rewards) for i, rewards in enumerate(found)]

    def unlike(self, run: int, config: Sequence[Key] | None = None) -> list[str]:
        """Keys of the evaluation in which a run differs from the baseline: with them the rewards do, too."""
        return self._differing(run, config, (_EVALUATED_BY,))

    def unlike_rewards(self, run: int, config: Sequence[Key] | None = None) -> list[str]:
        """Keys of the reward in which they differ: what is compared are two different things."""
        asked = any(self._has_judge(one) for one in (run, self.baseline))
        return self._differing(run, config, tuple(k for k in _REWARDED_BY if asked or not k.startswith("judge.")))

    def _has_judge(self, run: int) -> bool:
        leaf = (self.runs[run].values or {}).get("judge.enabled")
        return leaf is not None and bool(leaf.value)

    def _differing(self, run: int, config: Sequence[Key] | None, beginnings: tuple[str, ...]) -> list[str]:
        return [
            key.name
            for key in (self.config() if config is None else config)
            if key.name.startswith(beginnings)
            and not any({run, self.baseline} <= set(value.runs) for value in key.values)
            and {run, self.baseline} <= {one for value in key.values for one in value.runs}
        ]

    def sentence(self, run: int, config: Sequence[Key] | None = None) -> str:
        """What the evaluation says of a run, in words."""
        one, test = self.evaluations()[run], self.tests()[run]
        if one is None:
            return "no evaluation is recorded" + (f" up to step {self.at}" if self.at is not None else "")
        if test is None:
            seeds, left = len(one.seeds), one.unscored
            lost = f", {left} episode{'s' * (left != 1)} left out" if left else ""
            return f"baseline: evaluated at step {one.step} on {seeds} seed{'s' * (seeds != 1)}{lost}"
        said = verdict(test, len(self.runs) - 1)
        if test.mean is not None:
            interval = "" if test.low is None else f" (95 % {test.low:+.3f} to {test.high:+.3f})"
            counts = f"{test.better} better, {test.equal} equal, {test.worse} worse"
            base = self.evaluations()[self.baseline]
            apart = f", step {one.step} against {base.step}" if base is not None and base.step != one.step else ""
            against = f"against {self.names[self.baseline]}{apart}"
            said = f"{test.mean:+.3f}{interval} {against}{_chance(test)}, {counts}: {said}"
        if differs(test) and not differs(test, len(self.runs) - 1):
            said += f"; of {len(self.runs) - 1} tests one by chance is to be expected at p 0.05"
        unlike = self.unlike(run, config)
        other = self.unlike_rewards(run, config)
        if other:
            named = ", ".join(other[:MOST_NAMED]) + (f" and {len(other) - MOST_NAMED} more" * (len(other) > MOST_NAMED))
            said = f"the two rewards are different things ({named}), so this says little: {said}"
        return said + (f"; evaluated differently: {', '.join(unlike)}" if unlike else "")

    def document(self) -> dict[str, Any]:
        """All of it, for --json; runs are named by their place in `runs`."""
        config, tests = self.config(), self.tests()
        return {
            "baseline": self.baseline,
            "at": self.at,
            "runs": [one.json() for one in self.outcomes()],
            "config": [key.json() for key in config if key.differs],
            "config_unknown": self.config_unknown(),
            "keys": len(config),
            "metrics": [
                {"name": name, "last": [run.metrics.latest.get(name) for run in self.runs]} for name in self.metrics()
            ],
            "missing": [{"name": one.name, "runs": list(one.runs)} for one in self.missing()],
            "evaluation": {
                "steps": [[one.step for one in run.evaluations.found] for run in self.runs],
                "tests": [None if test is None else test.json() for test in tests],
                "unlike_rewards": [self.unlike_rewards(i, config) for i in range(len(self.runs))],
                "words": [self.sentence(i, config) for i in range(len(self.runs))],
                "seeds": [{"seed": one.seed, "rewards": list(one.rewards)} for one in self.seeds()],
            },
        }


def _chance(test: Paired) -> str:
    """ ", p 0.012"; nothing where there is no test."""
    if test.p is None:
        return ""
    return ", p < 0.001" if test.p < 0.001 else f", p {test.p:.3f}" if test.p < 0.1 else f", p {test.p:.2f}"
