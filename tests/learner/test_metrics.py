from __future__ import annotations

import math

import numpy as np
import pytest

from trainer.learner.metrics import (
    SequenceFigures,
    effective_sample_size,
    mismatch_kl,
    split_finite,
    step_metrics,
)


def test_effective_sample_size() -> None:
    assert effective_sample_size(np.ones(8)) == 8
    assert effective_sample_size(np.array([1.0, 0, 0])) == 1


def test_mismatch_kl_is_unbiased() -> None:
    rng = np.random.default_rng(0)
    p, q = np.array([0.2, 0.3, 0.5]), np.array([0.3, 0.3, 0.4])
    tokens = rng.choice(3, 200_000, p=p)
    kl = mismatch_kl(np.log(q[tokens]) - np.log(p[tokens]))
    assert kl.min() >= 0
    assert kl.mean() == pytest.approx((p * np.log(p / q)).sum(), rel=0.05)


def test_step_metrics() -> None:
    def figures(ratio: float, clip: str, delta: list[float]) -> SequenceFigures:
        return SequenceFigures(ratio, 1.0, clip, np.array(delta), np.full(len(delta), 0.5))

    values = step_metrics([figures(1.2, "high", [0.1, -0.3]), figures(0.99, "none", [0.2])], 0.01, 0.1, 0.1)
    assert values["gspo/ratio_min"] == 0.99 and values["gspo/ratio_max"] == 1.2
    assert values["gspo/clip_frac_high"] == 0.5 and values["gspo/clip_frac_low"] == 0
    assert values["gspo/ratio_out_of_band_frac"] == 0.5  # the band is 3 %
    assert values["logp_gap/mean"] == pytest.approx(0.2)
    assert values["logp_gap/sd"] == pytest.approx(np.std([0.1, 0.3, 0.2]))
    assert values["entropy"] == 0.5 and 0 <= values["gspo/clip_noise_floor"] < 1e-6


def test_what_is_not_finite_is_named_and_left_out() -> None:
    assert split_finite({"a": 1.0, "b": math.nan, "c": math.inf}) == ({"a": 1.0}, ["b", "c"])
