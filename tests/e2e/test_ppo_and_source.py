"""A run of ppo beside a reference process, and runs that go on from its checkpoint."""

import json

import numpy as np
import pytest
from safetensors.numpy import load_file

from tests.e2e.conftest import CONFIG, Trainer
from trainer.rundir import RunReader

PPO = (
    "algorithm.method=ppo",
    "algorithm.variety=ppo",
    "policy.trainer_mode=lora",
    "training.kl_coef=0.1",
    "compute.topology.reference_placement=dedicated",
    "training.batch_size=4",  # two updates an iteration
)


@pytest.fixture(scope="module")
def first(tmp_path_factory):
    trainer = Trainer(tmp_path_factory.mktemp("ppo"))
    run = trainer.run(*PPO)
    assert run.code == 0, run.stderr
    return trainer, run


@pytest.mark.slow
def test_ppo_with_a_reference_of_its_own(first):
    _, run = first
    metrics = [row for row in run.lines("metrics.jsonl") if "gspo/loss" in row]
    assert len(metrics) == 4
    assert all(row["ppo/value_loss"] > 0 and row["gspo/kl"] >= 0 for row in metrics)
    assert metrics[0]["gspo/kl"] == 0.0 and metrics[-1]["gspo/kl"] > 0.0
    assert all(row["batch/trainable_frac"] == 1.0 for row in metrics)  # equal rewards leave nobody out
    reader = RunReader(run.run_dir)
    (newest,) = [c for c in reader.checkpoints() if c.resumable]
    head = load_file(newest.path / "value_head.safetensors")
    assert np.abs(head["value_head.weight"]).max() > 0
    rows = [row for row in reader.index() if row["split"] == "train"]
    used = [update for row in rows for update in reader.updates(row["n"]) if update["kind"] == "use"]
    assert len(used) == 16
    block = reader.token_block(used[0]["arr"])
    assert block["adv"].any() and not any(update.get("adv") for update in used)


@pytest.mark.slow
def test_a_run_goes_on_from_its_adapter(first, tmp_path):
    _, before = first
    source = before.run_dir / "checkpoints" / "step_4"
    begun = Trainer(tmp_path)
    begun.config.write_text(CONFIG.replace('model_name = "builtin:tiny"', f'source = "{source}"'))
    run = begun.run("policy.trainer_mode=lora", "training.learning_rate=1e-12", "training.iterations_per_epoch=1")
    assert run.code == 0, run.stderr
    (step,) = [row for row in run.lines("metrics.jsonl") if "logp_gap/mean" in row]
    assert step["logp_gap/mean"] < 1e-3  # the engine was brought the adapter before the first episode
    (newest,) = [c for c in RunReader(run.run_dir).checkpoints() if c.resumable]
    assert newest.manifest["base_model"]["name"] == "builtin:tiny"
    old, new = (load_file(path / "adapter_model.safetensors") for path in (source, newest.path))
    assert all(np.allclose(new[name], tensor, atol=1e-8) for name, tensor in old.items())
    assert json.loads((run.run_dir / "status.json").read_text())["results"]["model_id"].startswith("rl:builtin:tiny:")


@pytest.mark.slow
def test_an_unknown_id_is_refused_with_the_known_ones(first, tmp_path):
    begun = Trainer(tmp_path)
    begun.config.write_text(CONFIG.replace('model_name = "builtin:tiny"', 'source = "ft:nobody"'))
    run = begun.run("policy.trainer_mode=lora", f"logging.runs_dir={first[0].folder}")
    assert run.code == 2 and run.status["error"]["code"] == "source_not_found"
    job = json.loads((first[1].run_dir / "status.json").read_text())["job_id"]
    assert f"ft:{job}" in run.stderr and "Traceback" not in run.stderr
