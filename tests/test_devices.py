"""Which GPUs the processes of a run see, and that this is what their environment says."""

from __future__ import annotations

import pytest

from tests.config.texts import SMALL
from trainer.config import load_text
from trainer.config.machine import NO_GPUS, Machine
from trainer.devices import (
    Place,
    gpus_per_node,
    learner_places,
    local_gpus,
    planned,
    ranks_of,
    reference_places,
    replica_places,
)
from trainer.inference.engine import EngineError
from trainer.inference.local import LocalEngine
from trainer.learner.client import LearnerError, LearnerProcess
from trainer.models import ResolvedModel
from trainer.settings import learner_settings


def loaded(count: int, *sets: str):
    machine = Machine(count, "NVIDIA H100") if count else NO_GPUS
    device = "cuda" if count else "cpu"
    return load_text(SMALL, "my.toml", environ={}, device=device, sets=sets, machine=machine).for_model(4096)


def here(config, environ):
    gpus = local_gpus(config, environ)
    return [place.devices for place in replica_places(config, gpus)], learner_places(config, gpus)[0].devices


def test_in_a_split_the_learner_has_the_first_gpus_and_the_replicas_the_last():
    split = loaded(8, "compute.topology.tensor_parallel=2").config
    assert here(split, {}) == ([("4", "5"), ("6", "7")], ("0", "1", "2", "3"))
    assert ranks_of(learner_places(split, local_gpus(split, {}))) == 4
    visible = {"CUDA_VISIBLE_DEVICES": "9,8,7,6,5,4,3,2"}
    assert here(split, visible) == ([("5", "4"), ("3", "2")], ("9", "8", "7", "6"))


def test_colocated_they_share_the_first():
    assert here(loaded(1).config, {"CUDA_VISIBLE_DEVICES": "GPU-ab"}) == ([("GPU-ab",)], ("GPU-ab",))


def test_on_a_cpu_nobody_sees_a_gpu_that_is_there():
    for config in (loaded(0).config, loaded(2, "compute.topology.type=cpu").config):
        assert here(config, {"CUDA_VISIBLE_DEVICES": "0,1"}) == ([()], ())
        assert ranks_of(learner_places(config, [("0", "1")])) == 1


def over(nodes: int, *sets: str):
    sets = ("compute.launcher=ray", f"compute.nodes={nodes}", *sets)
    return load_text(SMALL, "my.toml", environ={}, sets=sets).for_model(4096).config


def test_over_nodes_ranks_and_replicas_fill_one_node_after_the_other():
    config = over(3, "compute.gpu_count=8", "compute.topology.tensor_parallel=2")
    assert gpus_per_node(config) == [3, 3, 2]
    assert learner_places(config, planned(config)) == [Place(0, ("0", "1", "2")), Place(1, ("0",))]
    assert replica_places(config, planned(config)) == [Place(1, ("1", "2")), Place(2, ("0", "1"))]
    named = [("a", "b", "c"), ("d", "e", "f"), ("g", "h", "more than was asked for")]
    assert replica_places(config, named) == [Place(1, ("e", "f")), Place(2, ("g", "h"))]


def test_a_replica_that_would_lie_on_two_nodes_is_refused():
    config = over(
        2, "compute.gpu_count=6", "compute.topology.gpus_for_training=2", "compute.topology.tensor_parallel=2"
    )
    with pytest.raises(ValueError, match="would lie on two nodes, which have 3 and 3 GPUs"):
        replica_places(config, planned(config))


def test_a_dedicated_reference_has_a_place_for_each_of_its_gpus():
    sets = ["compute.topology.reference_placement=dedicated", "training.kl_coef=0.1", "compute.topology.gpus_for_ref=2"]
    config = over(2, "compute.gpu_count=4", *sets)
    assert reference_places(config, planned(config)) == [Place(0, ("1",)), Place(1, ("0",))]


def test_on_cpus_each_node_has_a_rank_and_a_replica():
    config = over(2, "compute.topology.type=cpu")
    gpus = [("0",), ("0",)]
    assert learner_places(config, gpus) == replica_places(config, gpus) == [Place(0, ()), Place(1, ())]
    assert gpus_per_node(config) == [0, 0]


@pytest.mark.parametrize(("gpus", "shares"), [(0, False), (1, True), (4, False)])
def test_a_learner_that_shares_its_gpu_is_told_so(tmp_path, gpus, shares):
    """It gives back what a pass took, and the engine starts after its rehearsal."""
    assert learner_settings(loaded(gpus), tmp_path).shares_gpu is shares


@pytest.fixture
def environments(monkeypatch) -> list[dict[str, str]]:
    """Of the children that were to be started; none is."""
    given: list[dict[str, str]] = []

    async def spawn(role, argv, *, env, **_):
        given.append(env)
        raise OSError("no child in this test")

    monkeypatch.setattr("trainer.placing.local.spawn", spawn)
    monkeypatch.setenv("CUDA_VISIBLE_DEVICES", "0,1")
    return given


async def test_the_children_s_environment_says_so(environments, tmp_path):
    config = loaded(0)
    model = ResolvedModel("m", tmp_path)
    for devices in ((), ("1", "3")):
        learner = LearnerProcess(learner_settings(config, tmp_path), threads=1, sink=print, places=[Place(0, devices)])
        engine = LocalEngine(model, dtype="float32", max_model_len=64, threads=1, devices=devices)
        for start in (learner.start(5), engine.start()):
            with pytest.raises((OSError, LearnerError, EngineError)):
                await start
    assert [env["CUDA_VISIBLE_DEVICES"] for env in environments] == ["", "", "1,3", "1,3"]
