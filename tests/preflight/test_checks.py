"""Each check on what it is there to find."""

from __future__ import annotations

import importlib
import json
import os
import socket
from dataclasses import replace
from pathlib import Path

import pytest

from rltui.cli.main import main
from rltui.model.estimates import engine_bytes, learner_bytes
from rltui.model.known import known
from rltui.preflight.base import Context
from rltui.preflight.config import smoke_report, valid
from rltui.preflight.gpus import MIB, chosen, parse
from rltui.preflight.machine import devices, disk, memory
from rltui.smoke.kept import kept_file
from tests.preflight.conftest import context
from tests.tui.test_estimates import QWEN3_4B
from trainer.config.machine import Machine

GB = 10**9
NVIDIA_SMI = """#!/bin/sh
case "$1" in
  *compute-apps*) echo "GPU-b, 4242, /usr/bin/python3" ;;
  *) echo "0, GPU-a, NVIDIA H100 80GB HBM3, 81559, 4"; echo "1, GPU-b, NVIDIA H100 80GB HBM3, 81559, 70000" ;;
esac
"""
ON_GPU = ("compute.topology.type=single_node_split", "compute.gpu_type=H100", "compute.gpu_count=2")


@pytest.fixture
def listening():
    """A port that somebody listens on."""
    with socket.create_server(("127.0.0.1", 0)) as server:
        yield server.getsockname()[1]


@pytest.fixture
def closed():
    """A port that nobody listens on."""
    with socket.create_server(("127.0.0.1", 0)) as server:
        port = server.getsockname()[1]
    return port


# The config


def test_a_wrong_config_is_told_with_its_key_and_fix(config):
    found = valid(Context(config, ("training.group_size=5",), environ={}))
    assert (found.verdict, found.key) == ("fail", "training.group_size") and "8 / 5" in found.message and found.fix
    missing = valid(Context(config.with_name("no.toml"), environ={}))
    assert missing.verdict == "fail" and "no such file" in missing.message


def test_warnings_of_a_config_are_a_warning(config):
    found = valid(Context(config, ("training.lora.dropout=0.1",), environ={}))
    assert found.verdict == "warn" and found.key == "training.lora.dropout"


def test_what_a_launch_refuses_fails(look):
    assert look("starts").verdict == "ok"
    found = look("starts", "services.task_url=no_such.py")
    assert (found.verdict, found.key) == ("fail", "services.task_url")


def test_the_smoke_test_must_be_of_these_values(config, capsys):
    """What `rltui smoke` keeps is what the check finds."""
    here = context(config)
    assert smoke_report(here).verdict == "skipped"
    quick = ["--seeds", "0:1", "--group-size", "1"]
    assert main(["smoke", str(config), *quick]) == 0, capsys.readouterr()
    found = smoke_report(here)
    assert found.verdict == "ok" and "by mock" in found.message
    assert smoke_report(context(config, "training.group_size=8")).verdict == "skipped"
    file = kept_file(here.loaded.config_hash)
    report = json.loads(file.read_text()) | {"verdict": "not_ready", "verdict_text": "not ready: S04"}
    for text, verdict in ((json.dumps(report), "warn"), ("{torn", "skipped"), ('{"verdict": 1}', "skipped")):
        file.write_text(text)
        assert smoke_report(here).verdict == verdict


# The machine


def test_a_folder_that_holds_a_run_or_cannot_be_made(look, tmp_path):
    assert look("folder").verdict == "ok"
    held = tmp_path / "held"
    held.mkdir()
    (held / "events.jsonl").touch()
    assert look("folder", run_dir=held).verdict == "fail"
    (tmp_path / "file").touch()
    assert look("folder", f"logging.runs_dir={json.dumps(str(tmp_path / 'file/runs'))}").verdict == "fail"


@pytest.mark.skipif(os.geteuid() == 0, reason="root may write anywhere")
def test_a_folder_that_is_closed(look, tmp_path):
    (tmp_path / "closed").mkdir(0o500)
    assert look("folder", run_dir=tmp_path / "closed/run").verdict == "fail"


def test_a_port_that_is_taken_is_told_with_its_holder(look, listening, closed):
    assert look("ports").verdict == "ok" and look("ports", f"inference.gateway_port={closed}").verdict == "ok"
    found = look("ports", f"inference.gateway_port={listening}")
    assert (found.verdict, found.key) == ("fail", "inference.gateway_port")
    assert str(os.getpid()) in found.message


def with_model(config: Path, folder: Path, *sets: str, **facts: int) -> Context:
    """A 4B model in `folder`, on a machine with so much of everything."""
    folder.mkdir(exist_ok=True)
    (folder / "config.json").write_text(json.dumps(QWEN3_4B))
    made = context(config, f"policy.model_name={json.dumps(str(folder))}", *sets)
    made.facts = replace(known(made.loaded), **facts)
    return made


def test_memory_on_a_cpu(config, tmp_path):
    for free, verdict in ((1000 * GB, "ok"), (20 * GB, "warn"), (10 * GB, "fail")):
        assert memory(with_model(config, tmp_path / "m", memory=free)).verdict == verdict
    guessed = context(config, "policy.model_name=org/model-4B")
    facts = known(guessed.loaded)
    low = learner_bytes(guessed.cfg, facts.shape).low + engine_bytes(guessed.cfg, facts.shape)[0]
    for free, verdict in ((low / 1.2, "warn"), (low / 2, "fail")):  # a guess refuses what is far off
        guessed.facts = replace(facts, memory=free)
        assert memory(guessed).verdict == verdict


def test_disk(config, tmp_path):
    for free, verdict in ((100 * GB, "ok"), (GB // 4, "warn"), (GB // 100, "fail")):
        found = disk(with_model(config, tmp_path / "m", disk=free))
        assert found.verdict == verdict, found


@pytest.fixture
def two_gpus(tmp_path, monkeypatch):
    """A driver with two devices, of which a process uses the second."""
    program = tmp_path / "bin/nvidia-smi"
    program.parent.mkdir()
    program.write_text(NVIDIA_SMI)
    program.chmod(0o755)
    monkeypatch.setenv("PATH", f"{program.parent}:{os.environ['PATH']}")
    monkeypatch.delenv("CUDA_VISIBLE_DEVICES", raising=False)
    module = importlib.import_module("trainer.config.load")  # by its path it is the function of that name
    monkeypatch.setattr(module, "inspect", lambda environ: Machine(2))


def test_gpus_in_use_are_told_with_who_uses_them(config, two_gpus, monkeypatch):
    here = context(config, *ON_GPU)
    found = devices(here)
    assert found.verdict == "warn" and "GPU 1" in found.message and "python3 (4242)" in found.message
    assert [gpu.index for gpu in here.gpus or []] == ["0", "1"]
    one = context(config, *ON_GPU[:2], "compute.topology.type=single_node_colocate", "compute.gpu_count=1")
    assert devices(one).verdict == "ok"
    other = context(config, *ON_GPU, environ={"CUDA_VISIBLE_DEVICES": "0"})
    assert devices(other).verdict == "fail"


def test_gpus_that_are_asked_for_and_not_here_are_a_warning_with_a_way_out(config, monkeypatch):
    monkeypatch.setattr(importlib.import_module("trainer.config.load"), "inspect", lambda environ: Machine(0))
    found = devices(context(config, *ON_GPU))
    assert (found.verdict, found.key) == ("warn", "compute.gpu_count") and "--target" in found.fix


@pytest.mark.parametrize(("mode", "names"), [("full", "= lora"), ("lora", "policy.model_name")])
def test_what_does_not_fit_names_a_way_that_helps(config, tmp_path, mode, names):
    found = memory(with_model(config, tmp_path / "m", f"policy.trainer_mode={mode}", memory=GB // 1000))
    assert found.verdict == "fail" and names in found.fix and (mode != "lora" or "lora" not in found.fix)


def test_memory_of_a_gpu(config, two_gpus, tmp_path):
    made = with_model(config, tmp_path / "m", *ON_GPU)
    devices(made)
    assert memory(made).verdict == "ok"
    small = with_model(config, tmp_path / "m", *ON_GPU, "vllm.gpu_memory_utilization=0.05")
    devices(small)
    found = memory(small)
    assert (found.verdict, found.key) == ("fail", "vllm.gpu_memory_utilization")


def test_the_driver_is_read_leniently():
    found = parse("0, GPU-a, X, 100, 1\n1, GPU-b, Y, [N/A], 1\n\nnonsense", "GPU-a, 7, /bin/vllm\n, ,\n")
    assert [(gpu.index, gpu.total, gpu.users) for gpu in found] == [("0", 100 * MIB, ("vllm (7)",))]
    both = parse("0, GPU-aa, X, 9, 1\n1, GPU-bb, Y, 9, 1", "")
    assert [gpu.index for gpu in chosen(both, "1,0", 1)] == ["1"]
    assert [gpu.index for gpu in chosen(both, "GPU-bb", 2)] == ["1"] and chosen(both, "-1", 2) == []


# Model, engine, judge, ways


def test_a_model_that_is_here_or_not(look, tmp_path):
    folder = tmp_path / "m"
    missing = look("model", f"policy.model_name={json.dumps(str(folder))}")
    assert (missing.verdict, missing.key) == ("fail", "policy.model_name")
    folder.mkdir()
    (folder / "config.json").write_text(json.dumps(QWEN3_4B))
    assert look("model", f"policy.model_name={json.dumps(str(folder))}").verdict == "fail"
    (folder / "model.safetensors").write_bytes(b"x" * 2000)
    assert "2 kB" in look("model", f"policy.model_name={json.dumps(str(folder))}").message
    assert look("model").verdict == "ok"


def test_a_model_of_the_hub_is_downloaded_first(look):
    found = look("model", "policy.model_name=org/model-4B")
    assert found.verdict in ("warn", "fail") and "8.0 GB" in found.message  # fail: no room for it here
    offline = look("model", "policy.model_name=org/model-4B", environ={"HF_HUB_OFFLINE": "1"})
    assert offline.verdict == "fail" and "HF_HUB_OFFLINE" in offline.message


def test_a_server_that_is_not_there(look, closed):
    found = look("engine", f"inference.url=http://127.0.0.1:{closed}")
    assert (found.verdict, found.key) == ("fail", "inference.url") and "refused" in found.message
    assert look("engine").verdict == "ok"


def test_the_way_back_from_an_app_elsewhere(look):
    assert look("way_back").verdict == "ok"
    far = "services.task_url=https://tasks.example.com"
    found = look("way_back", far)
    assert (found.verdict, found.key) == ("fail", "inference.public_url")
    assert look("way_back", far, "inference.public_url=https://here.example.com").verdict == "ok"
    assert look("way_back", far, "inference.gateway_host=0.0.0.0").verdict == "ok"
    no_program = look("way_back", far, "inference.tunnel=quick")
    assert no_program.verdict in ("ok", "fail")


def test_the_judge(look, listening, closed):
    on = ("judge.enabled=true", "judge.options.outcome=true", "judge.options.model=m")
    assert look("judge").verdict == "skipped"
    found = look("judge", *on, "judge.options.provider=openai")
    assert found.verdict == "fail" and "OPENAI_API_KEY" in found.message
    key = {"OPENAI_API_KEY": "sk-secret-0123456789abcdef"}
    there = look("judge", *on, "judge.options.provider=openai", environ=key)
    assert there.verdict == "ok" and "secret" not in str(there)
    base = "judge.options.base_url=http://127.0.0.1:{}/v1"
    assert look("judge", *on, base.format(listening)).verdict == "ok"
    assert look("judge", *on, base.format(closed)).verdict == "fail"


def test_variables_are_named_and_never_shown(look):
    far = "services.task_url=https://tasks.example.com"
    assert look("variables").verdict == "ok" and look("variables", far).verdict == "warn"
    found = look("variables", far, environ={"ENVIRONMENT_API_KEY": "hush-hush"})
    assert found.verdict == "ok" and "set: ENVIRONMENT_API_KEY" in found.message and "hush" not in str(found)
