"""Nodes of a Slurm job: what is asked of it, and a run over two of them (slow)."""

import json

import pytest

from tests.e2e.conftest import CONFIG
from trainer.config import load_text
from trainer.placing.base import PlacingError
from trainer.placing.choose import placing_of
from trainer.placing.local import LocalPlacing
from trainer.placing.slurm import SlurmPlacing, address_towards

BATCH = ("SLURM_JOB_ID", "SLURM_JOB_NUM_NODES", "SLURM_JOB_NODELIST", "SLURMD_NODENAME")


def config(nodes: int):
    sets = ["compute.launcher=slurm", "compute.gpu_count=0", f"compute.nodes={nodes}"]
    return load_text(CONFIG, "run.toml", sets=sets).config


@pytest.fixture
def in_job(monkeypatch, tmp_path):
    """Inside a job of two nodes, with stand-ins for Slurm's commands."""
    for name, value in zip(BATCH, ("17", "2", "n[1-2]", "n1"), strict=True):
        monkeypatch.setenv(name, value)
    hosts = "hostnames) echo n1; echo n2;; node) echo NodeName=$3 NodeAddr=127.0.0.9 NodeHostName=x;;"
    answers = {"srun": "", "scontrol": f"case $2 in {hosts} esac"}
    for name, does in answers.items():
        (tmp_path / name).write_text(f"#!/bin/bash\n{does}\n")
        (tmp_path / name).chmod(0o755)
    monkeypatch.setenv("PATH", str(tmp_path), prepend=":")


def test_one_node_needs_no_srun():
    assert isinstance(placing_of(config(1), print), LocalPlacing)


def test_an_agent_is_started_on_each_node_and_calls_an_address_that_leads_to_the_others(in_job):
    command = SlurmPlacing(config(2), print).command(4711)
    assert command[0] == "srun"
    assert {"--nodes=2", "--ntasks=2", "--ntasks-per-node=1", "--overlap"} <= set(command)
    assert command[-2:] == ["trainer.placing.agent", "127.0.0.1:4711"]  # the loopback's other end


def test_outside_of_a_job_it_is_said_what_to_do(monkeypatch):
    for name in BATCH:
        monkeypatch.delenv(name, raising=False)
    with pytest.raises(PlacingError, match="no job of Slurm") as caught:
        SlurmPlacing(config(2), print)
    assert "--target slurm" in caught.value.hint


def test_a_job_of_fewer_nodes_is_refused(in_job):
    with pytest.raises(PlacingError, match=r"compute\.nodes = 3, and Slurm gave 2"):
        SlurmPlacing(config(3), print)


def test_a_host_that_is_not_there_is_named():
    with pytest.raises(PlacingError, match=r"no way from here to node no-such-host\.invalid"):
        address_towards("no-such-host.invalid")


@pytest.mark.slow
def test_a_run_spreads_over_two_nodes_and_is_preempted_like_any_other(jobs):
    run = jobs.submit(
        "compute.launcher=slurm", "compute.nodes=2", "training.iterations_per_epoch=400", "checkpoint.every_n_iters=1"
    )
    run.step(2)
    children = run.status["children"]
    assert {child["role"] for child in children} >= {"learner", "inference"}, run.told()
    steps = jobs.slurm.ask("squeue", "--steps", "--noheader", f"--jobs={run.number}", "--format=%N").split()
    assert "n[1-2]" in steps
    jobs.slurm.ask("scancel", "--batch", "--signal=TERM", run.number)
    run.follow(lambda now: now["state"] == "queued")
    assert run.status["end_reason"] == "preempted", run.told()
    step = run.status["step"]
    status = run.follow(lambda now: (now["last_checkpoint"] or {"step": 0})["step"] > step)
    [resumed] = run.events("rl.resumed")
    assert resumed["data"]["from_step"] == step
    manifest = json.loads((run.folder / status["last_checkpoint"]["path"] / "manifest.json").read_text())
    assert manifest["world_size"] == 2
