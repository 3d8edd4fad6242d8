"""The main job from config to policy, seen through the run directory it leaves."""

import json

import numpy as np
import pytest
import safetensors.numpy

from tests.e2e.conftest import living
from trainer.rundir import RunReader


@pytest.fixture(scope="module")
def finished(tmp_path_factory):
    from tests.e2e.conftest import Trainer

    run = Trainer(tmp_path_factory.mktemp("run")).run("training.weight_sync.verify_every_k=1")
    assert run.code == 0, run.stderr
    return run


def test_it_says_that_it_is_ready_and_how_it_ended(finished):
    assert finished.stdout[0]["type"] == "ready"
    assert finished.stdout[-1]["type"] == "result" and finished.stdout[-1]["state"] == "succeeded"


def test_the_status_is_terminal_and_complete(finished):
    status = finished.status
    assert (status["state"], status["end_reason"], status["phase"]) == ("succeeded", "completed", "done")
    assert (status["step"], status["iteration"]) == (2, 2) and status["totals"]["steps"] == 2
    results = status["results"]
    assert results["episodes"] == 16 and results["excluded"] == {}
    assert results["evaluation"]["first"] is not None and results["peak_rss_mb"] > 100
    assert status["weight_version"] == 2 and status["children"] == []


def test_the_surroundings_name_engine_and_task_app(finished):
    found = json.loads((finished.run_dir / "environment.json").read_text())
    engine = found["engine"]
    assert (engine["kind"], engine["render"], engine["derender"]) == ("local", "template", "tokenizer")
    assert engine["version"] and "--max-model-len" in engine["options"] and "parser" in engine
    assert set(found["task_app"]) == {"url", "task", "version"} and found["task_app"]["task"]


def test_no_process_is_left(finished):
    assert living(finished.run_dir) == []
    assert not (finished.run_dir / "lock").exists()


def test_every_episode_is_on_record_with_its_tokens(finished):
    reader = RunReader(finished.run_dir)
    assert reader.episode_count() == 4 + 16 + 4
    rows = reader.index(0, 24)
    assert [row["split"] for row in rows] == ["eval"] * 4 + ["train"] * 16 + ["eval"] * 4
    for row in rows:
        text = reader.episode(row["n"])
        assert text["turns"][0]["messages"][0] == {"role": "user", "text": str(row["seed"] % 10)}
        assert text["turns"][0]["messages"][1]["role"] == "assistant"
        arrays = reader.token_block(row["arr"])
        assert len(arrays["ids"]) == len(arrays["mask"]) == sum(row["tok"])
        assert np.all(arrays["logp_behavior"] <= 0)


def test_training_seeds_skip_nothing_and_groups_are_whole(finished):
    groups = RunReader(finished.run_dir).groups()
    assert sorted(group["seed"] for group in groups) == [0, 1, 2, 3]
    assert all(len(group["members"]) == 4 for group in groups)


def test_the_first_iteration_is_on_policy(finished):
    """fp32: what the engine sampled and what the learner computes agree, so every ratio is 1."""
    first = next(line for line in finished.lines("metrics.jsonl") if "gspo/ratio_mean" in line)
    assert first["logp_gap/mean"] < 1e-4
    assert abs(first["gspo/ratio_mean"] - 1) < 1e-3


def test_metrics_have_a_line_for_every_step_with_the_names_of_the_design(finished):
    lines = [line for line in finished.lines("metrics.jsonl") if "optim/lr" in line]
    assert [line["step"] for line in lines] == [1, 2]
    for name in ("reward/mean", "gspo/loss", "optim/grad_norm", "time/step", "throughput/samples_per_sec"):
        assert name in lines[-1], name


def test_the_canary_of_each_sync_is_in_the_line_of_its_step_and_in_its_event(finished):
    lines = [line for line in finished.lines("metrics.jsonl") if "optim/lr" in line]
    syncs = [event["data"] for event in finished.lines("events.jsonl") if event["type"] == "rl.weight_sync"]
    assert [sync["verified"] for sync in syncs] == [True, True]
    for line, sync in zip(lines, syncs, strict=True):
        assert line["canary/residual"] == pytest.approx(sync["canary"]["residual"], rel=1e-3)
        assert (line["canary/undecided"], line["canary/failed"]) == (0, 0)
        assert 0.5 < line["canary/slope"] < 1.5


def test_events_have_no_gap_and_end_with_the_terminal_one(finished):
    events = finished.lines("events.jsonl")
    assert [event["seq"] for event in events] == list(range(1, len(events) + 1))
    assert [event["type"] for event in events[:2]] == ["rl.job.created", "rl.job.started"]
    assert events[-1]["type"] == "rl.job.completed"


def test_the_checkpoint_is_a_stock_model_that_differs_from_its_start(finished):
    folder = finished.run_dir / "checkpoints" / "step_2"
    assert (folder / "STABLE").is_file()
    state = json.loads((folder / "state.json").read_text())
    assert (state["step"], state["iteration"]) == (2, 2)
    from transformers import AutoModelForCausalLM

    from trainer.models import resolve_model

    trained = AutoModelForCausalLM.from_pretrained(folder, dtype="float32").state_dict()
    start = safetensors.numpy.load_file(resolve_model("builtin:tiny").path / "model.safetensors")
    name = "model.layers.0.self_attn.q_proj.weight"
    assert not np.array_equal(trained[name].numpy(), start[name])


def test_the_config_is_kept_to_the_byte_and_no_secret_is_written(finished):
    assert (finished.run_dir / "config.toml").read_bytes() == (finished.run_dir.parent / "run.toml").read_bytes()
    for path in finished.run_dir.rglob("*"):
        assert path.is_dir() or path.stat().st_mode & 0o077 == 0, path


def test_the_policy_visibly_learns(trainer):
    """From random weights to saying the digit again: the tiny model, full training, on held-out seeds too."""
    run = trainer.run(
        "training.iterations_per_epoch=10",
        "rollout.episodes_per_batch=48",
        "training.batch_size=48",
        "training.group_size=8",
        "training.learning_rate=4e-3",
        "evaluation.instances=10",
        "evaluation.seeds=[100,101,102,103,104,105,106,107,108,109]",
        "evaluation.temperature=1.0",
    )
    assert run.code == 0, run.stderr
    evaluation = run.status["results"]["evaluation"]
    assert evaluation["last"] > evaluation["first"] + 0.1
