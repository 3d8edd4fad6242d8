"""Runs whose processes are on the nodes of a real Ray cluster, and what becomes of them when a node is killed."""

from __future__ import annotations

import json
import os
import signal
from contextlib import suppress

import psutil
import pytest

from tests.placing.test_run_over_nodes import wait_for_step
from tests.ray.cluster import Cluster

pytestmark = pytest.mark.slow
PATIENCE_S = 600


def over(cluster: Cluster, nodes: int, *sets: str) -> list[str]:
    options = [f"compute.launcher_options.address={cluster.address}", "compute.launcher=ray", "inference.engine=local"]
    return [*options, f"compute.nodes={nodes}", *sets]


def process_on(run_dir, role: str, rank: int) -> psutil.Process:
    status = json.loads((run_dir / "status.json").read_text())
    found = next(c for c in status["children"] if (c["role"], c["rank"]) == (role, rank))
    assert found["host"] and found["start_time"] == 0
    return psutil.Process(found["pid"])


def gone(process: psutil.Process) -> bool:
    with suppress(psutil.NoSuchProcess):
        process.wait(20)
    return not process.is_running() or process.status() == psutil.STATUS_ZOMBIE


def test_ranks_and_engines_on_two_nodes_and_a_node_that_is_killed_and_a_run_that_goes_on(head, trainer):
    head.add()
    sets = over(head, 2, "compute.topology.type=cpu")
    process, run_dir = trainer.start(*sets, "checkpoint.every_n_iters=1", "training.iterations_per_epoch=500")
    wait_for_step(process, run_dir, 2)
    ranks = [process_on(run_dir, "learner", rank) for rank in (0, 1)]
    raylets = [next(p for p in rank.parents() if p.name() == "raylet") for rank in ranks]
    assert raylets[0] != raylets[1]
    head_raylet = next(p for p in psutil.Process(head.head_pid).children(recursive=True) if p.name() == "raylet")
    worker = 0 if raylets[1] == head_raylet else 1  # a coordinator on a node that dies is another story
    engines = [process_on(run_dir, "inference", rank) for rank in (0, 1)]
    head.kill_node_of(ranks[worker])
    done = trainer.finish(process, run_dir, PATIENCE_S)
    error = done.status["error"]
    assert done.code == 3 and error["code"] in ("learner_down", "learner_failed") and "was lost: " in error["message"]
    assert all(gone(p) for p in [*ranks, *engines])

    head.add()
    more = f"training.iterations_per_epoch={done.status['iteration'] + 1}"
    again = trainer.finish(*trainer.resume(run_dir, more), PATIENCE_S)
    assert again.code == 0 and again.status["state"] == "succeeded", again.stderr
    assert again.status["attempt"] == 2 and again.status["step"] > done.status["step"] - 1


def test_an_engine_s_node_that_is_killed_leaves_the_rest_at_work(head, trainer):
    for _ in range(3):
        head.add(gpus=1)  # in name: there is none, so that torch computes on the CPU
    sets = over(
        head, 3, "compute.gpu_count=3", "compute.topology.gpus_for_training=1", "training.iterations_per_epoch=6"
    )
    process, run_dir = trainer.start(*sets, "compute.topology.gpus_for_vllm=2")
    wait_for_step(process, run_dir, 1)
    head.kill_node_of(process_on(run_dir, "inference", 1))
    done = trainer.finish(process, run_dir, PATIENCE_S)
    assert done.code == 0 and done.status["state"] == "succeeded", done.stderr
    [warned] = [w["text"] for w in done.status["warnings"] if "engine replica 1 of 2" in w["text"]]
    assert "is gone, 1 still serve" in warned and "was lost" in warned


def test_a_coordinator_that_is_killed_leaves_nothing_on_the_nodes(head, trainer):
    process, run_dir = trainer.start(*over(head, 1, "compute.topology.type=cpu", "training.iterations_per_epoch=500"))
    wait_for_step(process, run_dir, 1)
    there = [process_on(run_dir, "learner", 0), process_on(run_dir, "inference", 0)]
    os.kill(process.pid, signal.SIGKILL)
    assert all(gone(p) for p in there)
    process.communicate()


def test_more_than_the_cluster_has_is_said(head, trainer):
    sets = over(head, 1, "compute.gpu_count=64", "inference.startup_timeout_s=40")
    done = trainer.finish(*trainer.start(*sets), PATIENCE_S)
    assert done.code == 2 and done.status["error"]["code"] == "no_nodes"
    assert "Ray did not give 1 node with" in done.status["error"]["message"] and '"GPU": 64' in done.stderr
