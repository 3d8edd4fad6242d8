"""Whether two runs differ on the seeds that both were evaluated on: a paired test. Pure.

The difference of each seed is taken first, so that what makes some seeds hard for everybody does not count as noise
(Miller, "Adding Error Bars to Evals", 2024, section 4.2). Repeats of a seed are no evidence of their own: a seed
counts once, with the mean of its repeats.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict, dataclass
from math import atan, cos, inf, pi, sin, sqrt
from typing import Any

SAME = 1e-9  # rewards nearer to each other are equal: means of repeats are rounded
LEVEL = 0.05  # of a single test, two-sided; also 1 - the confidence of the interval


@dataclass(frozen=True)
class Paired:
    """Other minus baseline over `pairs` seeds.

    `low`, `high`: 95 % confidence interval of `mean`; `p`: two-sided, of Student's t with pairs - 1 degrees of freedom.
    All None below two pairs; `p` is None, too, where every seed differs by the same amount. `better`, `equal`,
    `worse` count seeds.
    """

    pairs: int
    mean: float | None
    low: float | None
    high: float | None
    p: float | None
    better: int
    equal: int
    worse: int

    def json(self) -> dict[str, Any]:
        """For --json."""
        return asdict(self)


def paired(baseline: Mapping[int, float], other: Mapping[int, float]) -> Paired:
    """The test over the seeds that both have; the values are finite."""
    differences = [other[seed] - baseline[seed] for seed in baseline.keys() & other.keys()]
    count = len(differences)
    better, worse = sum(d > SAME for d in differences), sum(d < -SAME for d in differences)
    signs = better, count - better - worse, worse
    if not count:
        return Paired(0, None, None, None, None, *signs)
    mean = sum(differences) / count
    if count < 2:
        return Paired(1, mean, None, None, None, *signs)
    error = sqrt(sum((d - mean) ** 2 for d in differences) / (count - 1) / count)
    if error <= SAME:  # there is no spread to test against
        return Paired(count, mean, mean, mean, None if better or worse else 1.0, *signs)
    half = t_quantile(1 - LEVEL, count - 1) * error
    return Paired(count, mean, mean - half, mean + half, 1 - t_within(abs(mean) / error, count - 1), *signs)


def t_within(t: float, degrees: int) -> float:
    """P(|T| <= t) of Student's t for t >= 0 and whole degrees of freedom (Abramowitz & Stegun 26.7.3, 26.7.4)."""
    if t == inf:
        return 1.0
    theta = atan(t / sqrt(degrees))
    square = cos(theta) ** 2
    odd = degrees % 2
    term, total = (cos(theta) if odd else 1.0), 0.0
    for k in range(2 + odd, degrees + 1, 2):
        total += term
        term *= square * (k - 1) / k
    share = sin(theta) * total
    return min(1.0, 2 / pi * (theta + share) if odd else share)


def t_quantile(share: float, degrees: int) -> float:
    """The t >= 0 with P(|T| <= t) = share < 1, by bisection."""
    low, high = 0.0, 1.0
    while t_within(high, degrees) < share:
        low, high = high, 2 * high
    for _ in range(80):
        middle = (low + high) / 2
        low, high = (middle, high) if t_within(middle, degrees) < share else (low, middle)
    return high


def differs(test: Paired, tests: int = 1) -> bool:
    """Whether it says that there is a difference, as one of `tests` against the same baseline (Bonferroni)."""
    return test.p is not None and test.p < LEVEL / tests


def verdict(test: Paired, tests: int = 1) -> str:
    """What it comes to, in words; "better" means more reward."""
    seeds = f"{test.pairs} seed{'s' * (test.pairs != 1)}"
    if not test.pairs:
        return "no seed was evaluated in both"
    if test.mean is None or test.pairs < 2:
        return f"{seeds} cannot tell"
    if test.p is None:
        return f"{'better' if test.mean > 0 else 'worse'} by the same on each of {seeds}: nothing to test"
    if differs(test, tests):
        return "better" if test.mean > 0 else "worse"
    if not test.better and not test.worse:
        return f"equal on each of {seeds}"
    return f"no difference that {seeds} can show"
