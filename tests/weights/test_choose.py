"""Which transport, and why through files."""

from __future__ import annotations

import pytest

from tests.inference.test_choose import config, gpus
from trainer.weights.choose import choose, why_files
from trainer.weights.verified import VerifiedSync


@pytest.mark.parametrize(
    ("chosen", "kind", "reason"),
    [
        (config(), "local", "local engine"),
        (config(), "vllm", "no GPU"),
        (gpus(2, "policy.trainer_mode=lora"), "vllm", "adapters from files alone"),
        (gpus(2, "policy.trainer_mode=full", "training.weight_sync.direct=false"), "vllm", "direct = false"),
        (gpus(2, "policy.trainer_mode=full"), "vllm", "not built"),
    ],
)
def test_the_reason_is_the_first_that_holds(chosen, kind, reason):
    assert reason in why_files(chosen, kind)


class Engine:
    kind, url = "local", ""


def test_every_transport_is_verified_as_often_as_the_config_says(tmp_path):
    made = choose(config("training.weight_sync.verify_every_k=7"), None, Engine(), tmp_path)
    assert isinstance(made, VerifiedSync) and made.verify_every_k == 7
    assert choose(config("training.weight_sync.enable=false"), None, Engine(), tmp_path) is None
