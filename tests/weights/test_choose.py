"""Which transport, and why."""

from __future__ import annotations

import pytest

from tests.inference.test_choose import config, gpus
from trainer.inference.choose import vllm_settings
from trainer.models import resolve_model
from trainer.weights.choose import choose, way_of
from trainer.weights.direct import DirectSync
from trainer.weights.verified import VerifiedSync


@pytest.mark.parametrize(
    ("chosen", "kind", "way", "reason"),
    [
        (gpus(2, "policy.trainer_mode=full"), "local", None, "local engine"),
        (config(), "vllm", None, "no GPU"),
        (gpus(2, "policy.trainer_mode=lora"), "vllm", None, "adapters from files alone"),
        (gpus(2, "policy.trainer_mode=full", "training.weight_sync.direct=false"), "vllm", None, "direct = false"),
        (gpus(2, "policy.trainer_mode=full", "inference.url=http://10.0.0.1:80"), "vllm", None, "not ours"),
        (gpus(2, "policy.trainer_mode=lora", "training.weight_sync.mode=full"), "vllm", None, "merged copy"),
        (gpus(2, "policy.trainer_mode=full"), "vllm", "nccl", "GPUs of their own"),
        (gpus(8, "policy.trainer_mode=full", "compute.topology.tensor_parallel=2"), "vllm", "nccl", "of their own"),
        (gpus(1, "policy.trainer_mode=full"), "vllm", "ipc", "one GPU"),
    ],
)
def test_the_reason_is_the_first_that_holds(chosen, kind, way, reason):
    found, why = way_of(chosen, kind)
    assert found == way and reason in why


def test_only_over_ipc_the_server_opens_pickled_handles(tiny):
    assert vllm_settings(gpus(1, "policy.trainer_mode=full"), tiny, ("0",)).takes_handles
    assert not vllm_settings(gpus(2, "policy.trainer_mode=full"), tiny, ("1",)).takes_handles


@pytest.fixture
def tiny():
    return resolve_model("builtin:tiny")


class Engine:
    kind, url, replicas = "local", "", ()


class Vllm(Engine):
    kind = "vllm"


def test_a_full_run_on_gpus_of_its_own_sends_directly_and_says_so(tmp_path):
    told = []
    made = choose(gpus(2, "policy.trainer_mode=full"), None, Vllm(), tmp_path, told.append)
    assert isinstance(made._transport, DirectSync)
    assert told == ["weights go from device to device (nccl): learner and engine have GPUs of their own"]


def test_every_transport_is_verified_as_often_as_the_config_says(tmp_path):
    made = choose(config("training.weight_sync.verify_every_k=7"), None, Engine(), tmp_path)
    assert isinstance(made, VerifiedSync) and made.verify_every_k == 7
    assert choose(config("training.weight_sync.enable=false"), None, Engine(), tmp_path) is None
