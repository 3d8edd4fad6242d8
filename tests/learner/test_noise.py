from __future__ import annotations

import numpy as np
import pytest

from trainer.learner.noise import clip_noise_floor, noise_of, ratio_band


@pytest.mark.parametrize(("tokens", "expected"), [(5, 0.21), (20, 0.055)])
def test_the_figures_of_the_design(tokens: int, expected: float) -> None:
    assert clip_noise_floor(0.056 / tokens**0.5, 0.02, 0.02) == pytest.approx(expected, abs=0.006)


def test_floor_against_simulation_with_correlated_noise() -> None:
    """With a common part, as numeric noise has: the spread of whole sequences still gives the floor."""
    rng = np.random.default_rng(0)
    episodes, length = 40_000, 12
    token = rng.normal(0, 0.04, (episodes, length)) + rng.normal(0, 0.02, (episodes, 1))
    log_s, positive = token.mean(-1), rng.random(episodes) < 0.5
    s = np.exp(log_s)
    clipped = np.where(positive, s > 1.03, s < 0.98).mean()
    sd = noise_of(log_s[:5000])
    assert sd is not None and sd > 1.5 * 0.04 / length**0.5
    assert clip_noise_floor(sd, 0.02, 0.03) == pytest.approx(clipped, abs=0.01)


def test_edges() -> None:
    assert noise_of([0.1]) is None and noise_of([]) is None
    assert clip_noise_floor(0.0, 0.1, 0.1) == 0.0
    assert clip_noise_floor(1.0, 1.0, 10.0) == pytest.approx(0.5 * 0.0082, abs=1e-3)
    assert ratio_band(None) == 0.01 and ratio_band(0.02) == pytest.approx(0.06)
