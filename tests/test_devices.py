"""Which GPUs the processes of a run see, and that this is what their environment says."""

from __future__ import annotations

import pytest

from tests.config.texts import SMALL
from trainer.config import load_text
from trainer.config.machine import NO_GPUS, Machine
from trainer.devices import learner_devices, learner_ranks, replica_devices
from trainer.inference.engine import EngineError
from trainer.inference.local import LocalEngine
from trainer.learner.client import LearnerError, LearnerProcess
from trainer.models import ResolvedModel
from trainer.settings import learner_settings


def loaded(count: int, *sets: str):
    machine = Machine(count, "NVIDIA H100") if count else NO_GPUS
    device = "cuda" if count else "cpu"
    return load_text(SMALL, "my.toml", environ={}, device=device, sets=sets, machine=machine).for_model(4096)


def test_in_a_split_the_learner_has_the_first_gpus_and_the_replicas_the_last():
    split = loaded(8, "compute.topology.tensor_parallel=2").config
    assert replica_devices(split, {}) == [("4", "5"), ("6", "7")]
    assert learner_devices(split, {}) == ("0", "1", "2", "3") and learner_ranks(split) == 4
    visible = {"CUDA_VISIBLE_DEVICES": "9,8,7,6,5,4,3,2"}
    assert replica_devices(split, visible) == [("5", "4"), ("3", "2")]
    assert learner_devices(split, visible) == ("9", "8", "7", "6")


def test_colocated_they_share_the_first():
    one, visible = loaded(1).config, {"CUDA_VISIBLE_DEVICES": "GPU-ab"}
    assert replica_devices(one, visible) == [("GPU-ab",)] and learner_devices(one, visible) == ("GPU-ab",)


def test_on_a_cpu_nobody_sees_a_gpu_that_is_there():
    for config in (loaded(0).config, loaded(2, "compute.topology.type=cpu").config):
        assert replica_devices(config, {"CUDA_VISIBLE_DEVICES": "0,1"}) == [()]
        assert learner_devices(config, {"CUDA_VISIBLE_DEVICES": "0,1"}) == () and learner_ranks(config) == 1


@pytest.fixture
def environments(monkeypatch) -> list[dict[str, str]]:
    """Of the children that were to be started; none is."""
    given: list[dict[str, str]] = []

    async def spawn(role, argv, *, env, **_):
        given.append(env)
        raise OSError("no child in this test")

    monkeypatch.setattr("trainer.learner.client.spawn", spawn)
    monkeypatch.setattr("trainer.inference.local.spawn", spawn)
    monkeypatch.setenv("CUDA_VISIBLE_DEVICES", "0,1")
    return given


async def test_the_children_s_environment_says_so(environments, tmp_path):
    config = loaded(0)
    model = ResolvedModel("m", tmp_path)
    for devices in ((), ("1", "3")):
        learner = LearnerProcess(learner_settings(config, tmp_path), threads=1, sink=print, devices=devices)
        engine = LocalEngine(model, dtype="float32", max_model_len=64, threads=1, devices=devices)
        for start in (learner.start(5), engine.start()):
            with pytest.raises((OSError, LearnerError, EngineError)):
                await start
    assert [env["CUDA_VISIBLE_DEVICES"] for env in environments] == ["", "", "1,3", "1,3"]
