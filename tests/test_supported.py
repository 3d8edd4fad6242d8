from pathlib import Path

import pytest

from trainer import supported
from trainer.config import load
from trainer.errors import RunError

SAMPLES = Path(__file__).parents[1] / "sample_configs"


def config(*sets, sample="demo.toml"):
    return load(SAMPLES / sample, sets=sets, environ={}).config


@pytest.mark.parametrize("sample", sorted(path.name for path in SAMPLES.glob("*.toml")))
def test_the_samples_are_supported_and_without_effectless_values(sample):
    supported.check(config(sample=sample))
    assert supported.without_effect(config(sample=sample)) == []


@pytest.mark.parametrize(
    ("key", "sets"),
    [
        ("algorithm.variety", ["algorithm.variety=grpo"]),
        ("training.kl_coef", ["training.kl_coef=0.1", "compute.topology.reference_placement=shared"]),
    ],
)
def test_what_cannot_be_carried_out_is_refused_by_its_key(key, sets):
    with pytest.raises(RunError, match=key) as caught:
        supported.check(config(*sets))
    assert caught.value.exit_code == 2 and key in caught.value.hint


def test_a_lag_has_no_effect_and_says_so():
    assert "max_lag = 4" in supported.without_effect(config("training.max_lag=4"))[0]
