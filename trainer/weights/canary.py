"""Does the engine run the weights that it says it runs? The rule of the canary (DESIGN 5), no I/O.

The same fixed prefixes are put to engine and learner at two weight versions, and the *change* of the log-probabilities
of the engine's likeliest tokens is compared, token by token. A version number that we sent proves nothing; levels prove
little, since rounding shifts them.

Both changes carry rounding noise of about the same size, that of two versions each. So the slope is that of total
least squares: an ordinary regression on a noisy learner comes out too flat just where changes are small. The noise is
that of version 0 or, where it is more, of the last verified version: in bf16 it grows as an adapter does. Not without
end: beyond `FAR` times that of version 0 it counts no more, or an engine that drifts off would raise its own threshold.

Axes: P prefixes, K candidates.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from math import inf, isfinite, sqrt
from typing import Literal, Protocol

import numpy as np
from numpy.typing import NDArray

TOP = 20  # K, candidates a prefix: what engines give
SLOPE = (0.7, 1.3)
RESIDUAL = 3.0  # times the noise
RESOLUTION = 1e-6  # of a log-probability in fp32: no noise is taken for smaller
# Noise that another engine with the same weights may have in this dtype, in nats. bf16 rounds a logit of 16 to 0.06;
# kernels that compute fp32 in TF32 are off by some 1e-3.
EXPLAINED = {"float32": 1e-3, "float16": 1e-2, "bfloat16": 3e-2}
FAR = 10.0  # times the noise that is explained, or was measured at first: no noise any more, but other weights
Verdict = Literal["verified", "undecided", "failed"]
SEVERITY: tuple[Verdict, ...] = ("verified", "undecided", "failed")
Tops = Sequence[Mapping[int, float]]  # by prefix: the engine's likeliest tokens and their log-probabilities
Floats = NDArray[np.float32]


@dataclass(frozen=True, slots=True)
class Reading:
    """Log-probabilities at one weight version, of one engine and the learner."""

    tokens: NDArray[np.int32]  # [P, K], the engine's likeliest
    engine: Floats  # [P, K]
    learner: Floats  # [P, K]

    @property
    def noise(self) -> float:
        """Spread of engine minus learner where both have the same weights, in nats; inf where one is not finite."""
        if not (np.isfinite(self.engine).all() and np.isfinite(self.learner).all()):
            return inf
        return max(float((self.engine - self.learner).std()), RESOLUTION)


@dataclass(frozen=True, slots=True)
class Finding:
    """What a canary says of one replica."""

    verdict: Verdict
    slope: float | None  # of the engine's change on the learner's; None where they share too few candidates
    residual: float  # spread around that line, in nats
    change: float  # spread of the learner's change, in nats
    noise: float  # that it was held against, in nats


class Measured(Protocol):
    """A finding, or the figures of a report."""

    @property
    def slope(self) -> float | None: ...
    @property
    def residual(self) -> float: ...
    @property
    def noise(self) -> float: ...


def candidates(tops: Tops) -> tuple[NDArray[np.int32], Floats]:
    """Tokens and log-probabilities [P, K] of what the engine answered. ValueError where it gave too few."""
    least = min((len(top) for top in tops), default=0)
    if not least:
        raise ValueError("the engine gave no likeliest tokens")
    best = [sorted(top.items(), key=lambda entry: -entry[1])[: min(TOP, least)] for top in tops]
    tokens = np.array([[token for token, _ in row] for row in best], np.int32)
    return tokens, np.array([[logp for _, logp in row] for row in best], np.float32)


def most_noise(measured: float | None, dtype: str) -> float:
    """What engine and learner may differ by where both have the same weights, in nats. `measured`: by an earlier run
    of these weights, if one did."""
    return FAR * max(measured or 0.0, EXPLAINED[dtype])


def judge(before: Reading, tops: Tops, learner: Floats, now: Reading, noise: float) -> Finding:
    """Compares a reading with that of the last verified version.

    Args:
        before: at the last verified version.
        tops: the engine's answers now.
        learner: [P, K], of `before.tokens` now.
        now: at the engine's candidates of now.
        noise: of the first version measured, in nats; that of `before` counts where it is more, up to `FAR` times.
    """
    noise = max(noise, min(before.noise, FAR * noise))
    if not all(np.isfinite(values).all() for values in (now.engine, now.learner, learner)):
        return Finding("failed", None, inf, inf, noise)
    engine = _engine_now(before, tops, learner)
    shared = ~np.isnan(engine)
    of_learner = (learner - before.learner)[shared].astype(np.float64)
    of_engine = (engine - before.engine)[shared].astype(np.float64)
    if len(of_learner) < len(before.tokens):
        # another distribution altogether: what is left to compare is where both stand now
        off = float((now.engine - now.learner).std())
        return Finding("verified" if off < RESIDUAL * noise else "failed", None, off, inf, noise)
    change = float(of_learner.std())
    if change < sqrt(2.0) * noise:  # which is what the noise of two versions makes of no change at all
        off = float((of_engine - of_learner).std())
        return Finding("undecided" if off < RESIDUAL * noise else "failed", None, off, change, noise)
    slope, residual = line(of_learner, of_engine)
    good = SLOPE[0] <= slope <= SLOPE[1] and residual < RESIDUAL * noise
    return Finding("verified" if good else "failed", slope, residual, change, noise)


def in_words(found: Measured) -> str:
    """The figures, each with what would be right."""
    slope = "" if found.slope is None else f"slope {found.slope:.2f} where {SLOPE[0]:g} to {SLOPE[1]:g} is right, "
    return f"{slope}residual {found.residual / found.noise:.1f} times the noise where below {RESIDUAL:g} is right"


def line(x: NDArray[np.float64], y: NDArray[np.float64]) -> tuple[float, float]:
    """Slope of y on x, both equally noisy (total least squares), and the spread of y around that line."""
    x, y = x - x.mean(), y - y.mean()
    xx, yy, xy = float(x @ x), float(y @ y), float(x @ y)
    if xy == 0.0:
        slope = 0.0 if yy <= xx else inf
    else:
        slope = (yy - xx + sqrt((yy - xx) ** 2 + 4.0 * xy * xy)) / (2.0 * xy)
    return slope, float((y - slope * x).std()) if isfinite(slope) else inf


def _engine_now(before: Reading, tops: Tops, learner: Floats) -> NDArray[np.float64]:
    """[P, K] of `before.tokens`, NaN where nothing is known. A token that the engine does not list has at most the
    log-probability of its last one: that is what counts where the learner says more, and else nothing contradicts."""
    found = np.full(before.tokens.shape, np.nan)
    for p, top in enumerate(tops):
        floor = min(top.values())
        for k, token in enumerate(before.tokens[p].tolist()):
            if token in top:
                found[p, k] = top[token]
            elif learner[p, k] > floor:
                found[p, k] = floor
    return found
