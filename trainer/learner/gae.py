"""Generalized advantage estimation (Schulman et al., arXiv 1506.02438, equation 16). Pure functions."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

Floats = NDArray[np.float64]


def advantages(rewards: Floats, values: Floats, *, gamma: float, gae_lambda: float) -> Floats:
    """sum_l (gamma lambda)^l delta_{t+l}, with delta_t = r_t + gamma V_{t+1} - V_t and no value after the last token.

    Args:
        rewards: [T] of the sampled tokens of one sequence; what the environment wrote in between is no time step.
        values: [T] of the states in which they were sampled.

    Returns:
        [T]; added to `values` it is the return that a critic is fitted to (TD(lambda)).
    """
    deltas = rewards + gamma * np.append(values[1:], 0.0) - values
    found, after = np.empty(len(deltas)), 0.0
    for t in range(len(deltas) - 1, -1, -1):
        after = deltas[t] + gamma * gae_lambda * after
        found[t] = after
    return found


def explained_variance(returns: Floats, values: Floats) -> float | None:
    """1 - var(returns - values) / var(returns): 1 foretells all, 0 no more than their mean would. None for returns
    that are all the same."""
    spread = float(returns.var())
    return 1.0 - float((returns - values).var()) / spread if spread > 0.0 else None
