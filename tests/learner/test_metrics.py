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


def figures(ratio: float, delta: list[float], log_ratios: list[float] | None = None, **changes) -> SequenceFigures:
    values = {
        "mean_log_ratio": math.log(ratio),
        "ratio": ratio,
        "log_ratios": np.array([math.log(ratio)] if log_ratios is None else log_ratios),
        "weight": 1.0,
        "correction": 1.0,
        "clipped_low": changes.pop("low", 0.0),
        "clipped_high": changes.pop("high", 0.0),
        "delta": np.array(delta),
        "entropy": np.full(len(delta), 0.5),
    }
    return SequenceFigures(**(values | changes))


def test_step_metrics() -> None:
    one, two = figures(1.2, [0.1, -0.3], high=1.0), figures(0.99, [0.2])
    values = step_metrics([one, two], 0.01, 0.01, 0.1, 0.1)
    assert (one.clip, two.clip) == ("high", "none")
    assert values["gspo/ratio_min"] == pytest.approx(0.99) and values["gspo/ratio_max"] == pytest.approx(1.2)
    assert "gspo/kl" not in values
    assert values["gspo/clip_frac_high"] == 0.5 and values["gspo/clip_frac_low"] == 0
    assert values["gspo/ratio_out_of_band_frac"] == 0.5  # the band is 3 %
    assert values["logp_gap/mean"] == pytest.approx(0.2)
    assert values["logp_gap/sd"] == pytest.approx(np.std([0.1, 0.3, 0.2]))
    assert values["entropy"] == 0.5 and 0 <= values["gspo/clip_noise_floor"] < 1e-6


def test_what_is_not_finite_is_named_and_left_out() -> None:
    assert split_finite({"a": 1.0, "b": math.nan, "c": math.inf}) == ({"a": 1.0}, ["b", "c"])


def test_metrics_of_a_token_level_ratio() -> None:
    one = figures(1.0, [0.0, 0.0], [math.log(0.5), math.log(2.0)], low=0.5, kl=0.1)
    two = figures(1.0, [0.0], [0.0], weight=0.5, correction=2.0, kl=0.4)
    values = step_metrics([one, two], 0.01, 0.2, 0.1, 0.1)
    assert (values["gspo/ratio_min"], values["gspo/ratio_max"]) == (pytest.approx(0.5), pytest.approx(2.0))
    assert values["gspo/ratio_mean"] == pytest.approx((1.25 + 1.0) / 2)
    assert values["gspo/ratio_out_of_band_frac"] == 0.0
    assert values["gspo/clip_frac_low"] == 0.25 and one.clip == "low"
    assert values["gspo/clip_noise_floor"] == pytest.approx(0.30, abs=0.02)  # by the tokens' noise, not the sequences'
    assert values["gspo/kl"] == pytest.approx((0.1 + 0.5 * 0.4) / 1.5)
    assert values["ess"] == pytest.approx(2.0)
