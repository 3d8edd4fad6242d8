"""Whole runs with vLLM as their engine: merged weights through files, and the adapter alone."""

import json

import pytest

from tests.e2e.conftest import Trainer, living
from tests.inference.vllm_tools import needs_vllm

pytestmark = [needs_vllm, pytest.mark.slow]

SETS = ("inference.engine=vllm", "policy.trainer_mode=lora", "training.lora.r=4", "vllm.max_num_seqs=16")


@pytest.mark.parametrize("mode", ["full", "lora"])
def test_a_run_on_vllm_succeeds_and_is_on_policy(tmp_path, mode):
    trainer = Trainer(tmp_path)
    run = trainer.finish(*trainer.start(*SETS, f"training.weight_sync.mode={mode}"), timeout=570)
    assert run.code == 0, run.stderr
    assert run.status["state"] == "succeeded" and run.status["weight_version"] == 2
    assert living(run.run_dir) == []
    assert list((run.run_dir / "weights").iterdir()) == []
    lines = [line for line in run.lines("metrics.jsonl") if "logp_gap/mean" in line]
    assert len(lines) == 2 and all(line["logp_gap/mean"] < 1e-3 for line in lines)  # of the second version, too
    engine = json.loads((run.run_dir / "environment.json").read_text())["engine"]
    assert (engine["kind"], engine["render"]) == ("vllm", "endpoint")
    assert engine["adapters"] == ("in place" if mode == "lora" else None)
