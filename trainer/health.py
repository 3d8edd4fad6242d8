"""What is wrong with a run by the numbers of its own steps: the events `rl.health` (WIRE 3.5). Pure.

They bear the ids of the Doctor's rules and have its default bands. The Doctor sees more: longer windows, the start of
the run, bands of a person's own. These few are for who follows the events alone.
"""

from __future__ import annotations

from collections import Counter, deque
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from statistics import fmean
from typing import NamedTuple

from trainer.taskapp.codes import THE_APPS

Line = Mapping[str, float]  # the metrics of a step (DESIGN 7)

KEPT = 50  # lines that are looked at
STEADY = 3  # readings in a row after which a rule that has spoken is content again
STEPS = 5  # of which a share is the mean
STILL = 3  # steps without any gradient
SHARE = 0.20  # of an iteration's episodes
CLIPPED, FLOOR, OUTSIDE, UNDECIDED, SKIPPED = 0.35, 0.10, 0.30, 5, 2
ALL = 1 - 1e-6  # of a share

LAG, OUT_OF_BAND, NOISE = "off_policy/max", "gspo/ratio_out_of_band_frac", "gspo/clip_noise_floor"
LOW, HIGH, TRAINED = "gspo/clip_frac_low", "gspo/clip_frac_high", "batch/trainable_frac"


class Found(NamedTuple):
    """What a check says. `advice`: the key to change, and up or down."""

    value: float
    says: str
    advice: str


@dataclass(frozen=True, slots=True)
class Finding:
    """What a rule says by one reading. `times`: readings that said so since it began to; 1 is news."""

    rule: str
    found: Found
    times: int

    @property
    def message(self) -> str:
        """'D01: in every group of an iteration all rewards were equal; raise training.group_size'."""
        return f"{self.rule}: {self.found.says}; {self.found.advice}"


Check = Callable[[Sequence[Line], int], Found | None]


class Health:
    """Of one attempt. `look` with the metrics of each step; `episodes`: of an iteration."""

    def __init__(self, episodes: int) -> None:
        self._episodes = episodes
        self._lines: deque[Line] = deque(maxlen=KEPT)
        self._speaking: dict[str, tuple[int, int]] = {}  # of rules that speak: how often, good readings since

    def look(self, line: Line) -> list[Finding]:
        """What is wrong. A rule whose own metric is not in the line has no reading by it."""
        self._lines.append(line)
        lines = list(self._lines)
        return [
            finding
            for rule, (metric, check) in RULES.items()
            if metric in line
            for finding in self._read(rule, check(lines, self._episodes))
        ]

    def resent(self, version: int) -> list[Finding]:
        """D18: the engine ran new weights only when they were sent a second time. News each time, whatever it says."""
        self._speaking.pop("D18", None)
        says = f"the engine did not run weight version {version} as first sent; the second sending passed the canary"
        advice = "lower training.weight_sync.verify_every_k to 1, so that every sync is checked"
        return self._read("D18", Found(1.0, says, advice))

    def _read(self, rule: str, found: Found | None) -> list[Finding]:
        """One reading of a rule; None is a good one."""
        times, good = self._speaking.get(rule, (0, 0))
        if found is not None:
            self._speaking[rule] = (times + 1, 0)
            return [Finding(rule, found, times + 1)]
        if good + 1 == STEADY:
            self._speaking.pop(rule, None)
        elif times:
            self._speaking[rule] = (times, good + 1)
        return []

    def is_over(self, code: str) -> bool:
        """Whether a warning of that code is one of ours that holds no more."""
        return code in RULES and code not in self._speaking


def _equal(lines: Sequence[Line], episodes: int) -> Found | None:
    line = lines[-1]
    if line["reward/frac_zero_std"] < 1.0:
        return None
    others = "easier" if line.get("reward/frac_all_bad") == 1.0 else "other"
    others = "harder" if line.get("reward/frac_all_good") == 1.0 else others
    return Found(
        1.0,
        "in every group of an iteration all rewards were equal: nothing to learn from",
        f"raise training.group_size or rollout.max_refill_groups, or choose {others} tasks",
    )


def _still(lines: Sequence[Line], episodes: int) -> Found | None:
    """Without a clip that takes it all, a gradient of exactly 0 is that of a policy that answers to nothing."""
    last = lines[-STILL:]
    if len(last) < STILL or not all(
        line.get("optim/grad_norm") == 0.0
        and line.get(TRAINED, 0.0) > 0.0
        and line.get(LOW, 0.0) + line.get(HIGH, 0.0) < ALL
        for line in last
    ):
        return None
    entropy = f", the entropy is {last[-1]['entropy']:.3f}" if "entropy" in last[-1] else ""
    return Found(
        0.0,
        f"the gradient of {STILL} steps in a row is exactly 0{entropy}: nothing is learned any more",
        "lower training.learning_rate, and go back to a checkpoint from before",
    )


def _noisy(lines: Sequence[Line], episodes: int) -> Found | None:
    low, high, noise = (_last(lines, name) for name in (LOW, HIGH, NOISE))
    if min(map(len, (low, high, noise))) < STEPS:
        return None
    clipped, floor = fmean(low) + fmean(high), fmean(noise)
    if clipped <= CLIPPED or floor <= FLOOR:
        return None
    return Found(
        clipped,
        f"{_percent(clipped)} of the last {STEPS} steps is clipped, and noise alone would clip {_percent(floor)}",
        "raise training.clip_eps_low and training.clip_eps_high",
    )


def _outside(lines: Sequence[Line], episodes: int) -> Found | None:
    outside = _last(lines, OUT_OF_BAND)
    if len(outside) < STEPS or fmean(outside) <= OUTSIDE:
        return None
    fresh = not any(_last(lines, LAG))
    return Found(
        fmean(outside),
        f"{_percent(fmean(outside))} of the ratios of {STEPS} steps lie outside what noise explains",
        "lower training.learning_rate" if fresh else "lower training.max_lag",
    )


def _old(lines: Sequence[Line], episodes: int) -> Found | None:
    line = lines[-1]
    # Only what was given up before the batch closed stands beside its episodes; what was masked later is among them.
    share = line["off_policy/dropped"] / (line.get("error/stale", 0.0) + episodes)
    if share <= SHARE:
        return None
    return Found(
        share,
        f"{_percent(share)} of an iteration's episodes were too old to be trained on",
        "lower rollout.max_concurrent_rollouts, or raise training.max_lag",
    )


def _undecided(lines: Sequence[Line], episodes: int) -> Found | None:
    times = lines[-1]["canary/undecided"]
    if times < UNDECIDED:
        return None
    return Found(
        times,
        f"{times:.0f} checks of the served weights in a row could not tell: they change less than the noise",
        "raise training.weight_sync.verify_every_k, or training.learning_rate where the reward is flat",
    )


def _skipped(lines: Sequence[Line], episodes: int) -> Found | None:
    skipped = sum(line.get("optim/skipped", 0.0) > 0.0 and line.get(TRAINED, 0.0) > 0.0 for line in lines)
    if skipped < SKIPPED:
        return None
    return Found(
        float(skipped),
        f"{skipped} of the last {len(lines)} steps made no update; three in a row end the run",
        "lower training.learning_rate, or set training.dtype to float32",
    )


def _failing(lines: Sequence[Line], episodes: int) -> Found | None:
    counts = Counter({code: lines[-1].get(f"error/{code}", 0.0) for code in THE_APPS})
    failed = sum(counts.values())
    if _share(failed, episodes) <= SHARE:
        return None
    [(code, _)] = counts.most_common(1)
    limit = "raise rollout.timeout_s, or " if code == "timeout" else ""
    return Found(
        _share(failed, episodes),
        f"{_percent(_share(failed, episodes))} of an iteration's plays failed in the task app, most often by {code}",
        f"{limit}lower rollout.max_concurrent_rollouts, or mend the app",
    )


def _unjudged(lines: Sequence[Line], episodes: int) -> Found | None:
    share = _share(lines[-1]["judge/failed"], episodes)
    if share <= SHARE:
        return None
    return Found(
        share,
        f"{_percent(share)} of an iteration's episodes got no score",
        "raise judge.timeout_s, or lower judge.options.max_concurrency",
    )


# By the Doctor's id: the metric whose being there is a reading, and the check.
RULES: dict[str, tuple[str, Check]] = {
    "D01": ("reward/frac_zero_std", _equal),
    "D08": ("optim/grad_norm", _still),
    "D11": (NOISE, _noisy),
    "D15": (OUT_OF_BAND, _outside),
    "D16": ("off_policy/dropped", _old),
    "D18": ("canary/undecided", _undecided),
    "D23": ("optim/skipped", _skipped),
    "D27": ("reward/mean", _failing),
    "D28": ("judge/failed", _unjudged),
}


def _last(lines: Sequence[Line], name: str) -> list[float]:
    """Its values in the last steps, of those that have it."""
    return [line[name] for line in lines[-STEPS:] if name in line]


def _share(lost: float, episodes: int) -> float:
    """Of an iteration: those that were lost stand beside the ones that it has."""
    return lost / (lost + episodes)


def _percent(share: float) -> str:
    return f"{100 * share:.0f} %"
