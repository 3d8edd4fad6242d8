"""Whether a judge agrees with the environment. A judge is never trusted silently: `judge/agreement`."""

from __future__ import annotations

from collections.abc import Sequence

FEWEST = 3


def spearman(xs: Sequence[float], ys: Sequence[float]) -> float | None:
    """Rank correlation in [-1, 1], equal values sharing their mean rank (Spearman, 1904).

    None where it does not exist: fewer than three pairs, or all values of one side equal.
    """
    if len(xs) != len(ys):
        raise ValueError(f"{len(xs)} values and {len(ys)} values make no pairs")
    if len(xs) < FEWEST:
        return None
    a, b = _ranks(xs), _ranks(ys)
    middle = (len(xs) + 1) / 2
    cross = sum((x - middle) * (y - middle) for x, y in zip(a, b, strict=True))
    spread = sum((x - middle) ** 2 for x in a) * sum((y - middle) ** 2 for y in b)
    return None if spread == 0 else cross / spread**0.5


def _ranks(values: Sequence[float]) -> list[float]:
    """From 1; equal values get the mean of theirs."""
    order = sorted(range(len(values)), key=values.__getitem__)
    ranks = [0.0] * len(values)
    start = 0
    while start < len(order):
        end = start
        while end < len(order) and values[order[end]] == values[order[start]]:
            end += 1
        for index in order[start:end]:
            ranks[index] = (start + 1 + end) / 2
        start = end
    return ranks
