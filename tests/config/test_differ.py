"""What may differ between two attempts of a run."""

from __future__ import annotations

import json

import pytest

from tests.config.texts import SMALL
from trainer.config import load_text
from trainer.config.differ import forbidden, live_keys
from trainer.rundir.attempts import leaves


def values(*sets: str, limit: int | None = None) -> dict:
    loaded = load_text(SMALL, "run.toml", sets=sets, environ={}, device="cpu")
    loaded = loaded if limit is None else loaded.for_model(limit)
    return leaves(json.loads(json.dumps(loaded.resolved()["values"])))


def found(old: dict, new: dict, **options: bool) -> list[str]:
    return [item.key for item in forbidden(old, new, **options)]


@pytest.mark.parametrize(
    "allowed",
    [
        "training.learning_rate=3e-5",
        "training.num_epochs=7",
        "rollout.max_concurrent_rollouts=2",  # evaluation.max_concurrent_rollouts follows it
        "training.max_lag=8",
        "checkpoint.keep_last=9",
        "rollout.timeout_s=7",
        "logging.runs_dir=elsewhere",
    ],
)
def test_keys_that_may_differ(allowed: str) -> None:
    assert found(values(), values(allowed)) == []


@pytest.mark.parametrize("other", ["training.group_size=2", "policy.label=other", "training.dtype=bfloat16"])
def test_any_other_difference_is_named_with_both_values(other: str) -> None:
    key, _, value = other.partition("=")
    old = values("training.dtype=float32")
    (difference,) = [item for item in forbidden(old, values("training.dtype=float32", other)) if item.key == key]
    assert str(difference).startswith(f"{key} was ") and value in str(difference)


def test_what_is_known_only_with_the_model_is_compared_once_it_is_known() -> None:
    old = values(limit=2048)
    assert found(old, values()) != []  # training.max_seq_len follows from the model
    assert found(old, values(), given_only=True) == []
    assert found(old, values(limit=2048)) == []
    assert "training.max_seq_len" in found(old, values(limit=1024))


def test_the_live_keys_are_those_of_the_reference() -> None:
    assert len(live_keys()) == 11 and "policy.temperature" in live_keys()
