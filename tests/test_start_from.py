"""policy.source: which checkpoint each spelling means, and what is said where there is none."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from tests.config.texts import SMALL
from trainer.config import load_text
from trainer.rundir.checkpoints import begin_checkpoint, checkpoint_name, finish_checkpoint
from trainer.start_from import CannotStart, start_of

JOB, OTHER = "rl_0123456789abcdef", "rl_fedcba9876543210"


@pytest.fixture
def runs(tmp_path: Path) -> Path:
    """Two runs: an adapter of steps 4 and 8, and a whole model of step 2."""
    for label, job, steps, files in (
        ("mine", JOB, (4, 8), ("adapter_model.safetensors", "adapter_config.json")),
        ("big", OTHER, (2,), ("config.json", "model.safetensors")),
    ):
        for step in steps:
            folder = tmp_path / f"{label}-{job}" / "checkpoints"
            aside = begin_checkpoint(folder, step)
            (aside / "optimizer").mkdir()
            (aside / "optimizer" / "rank_0.safetensors").write_text("moments")
            for name in files:
                (aside / name).write_text(json.dumps({"r": 4, "lora_alpha": 8}))
            manifest = {
                "job_id": job,
                "step": step,
                "iteration": 1,
                "attempt": 1,
                "base_model": {"name": "builtin:tiny"},
            }
            finish_checkpoint(aside, folder / checkpoint_name(step), manifest)
    return tmp_path


def start(runs: Path, source: str, *sets: str):
    text = SMALL.replace('model_name = "builtin:tiny"\n', "")
    own = [f"policy.source={source}", f"logging.runs_dir={runs}", "policy.trainer_mode=lora"]
    sets = (*own, "training.lora.r=4", "training.lora.alpha=8", *sets)
    return start_of(load_text(text, "my.toml", environ={}, device="cpu", sets=sets).config)


@pytest.mark.parametrize(
    ("source", "step"),
    [
        (f"ft:{JOB}", 8),
        (f"qft:{JOB}@4", 4),
        ("fft:mine@8", 8),
        (f"ft:mine-{JOB}", 8),
        (f"rl:builtin:tiny:{JOB}", 8),
        (f"rl:builtin:tiny:{JOB}@4", 4),
        ("RUNS/mine-JOB/checkpoints/step_4", 4),
        ("RUNS/mine-JOB", 8),
    ],
)
def test_each_spelling(runs: Path, source: str, step: int) -> None:
    found = start(runs, source.replace("RUNS", str(runs)).replace("-JOB", f"-{JOB}"))
    assert found.model == "builtin:tiny" and found.adapter == runs / f"mine-{JOB}/checkpoints/step_{step}"


def test_a_whole_model_is_started_from_as_it_lies_there(runs: Path) -> None:
    for mode in ("full", "lora"):
        found = start(runs, f"ft:{OTHER}", f"policy.trainer_mode={mode}")
        assert found.model == str(runs / f"big-{OTHER}/checkpoints/step_2") and found.adapter is None


@pytest.mark.parametrize(
    ("source", "sets", "message", "hint"),
    [
        ("ft:nobody", (), "there is no run 'nobody'", f"ft:{JOB} (mine-{JOB})"),
        (f"ft:{JOB}@5", (), "no checkpoint of step 5", "4, 8"),
        (f"ft:{JOB}@last", (), "'last' is no step", "@STEP"),
        (f"rl:other:{JOB}", (), "began with builtin:tiny", f"rl:builtin:tiny:{JOB}"),
        ("nowhere/at/all", (), "does not exist", f"ft:{OTHER}"),
        (f"ft:{JOB}", ("policy.trainer_mode=full",), "goes on as an adapter", 'trainer_mode = "lora"'),
        (f"ft:{JOB}", ("training.lora.r=16",), "training.lora.r is 16, not 4", "--set training.lora.r=4"),
        (f"ft:{JOB}", ("training.weight_sync.enable=false",), "weight_sync is off", "enable = true"),
    ],
)
def test_what_is_said(runs: Path, source: str, sets: tuple[str, ...], message: str, hint: str) -> None:
    with pytest.raises(CannotStart) as caught:
        start(runs, source, *sets)
    assert message in str(caught.value) and hint in caught.value.hint


def test_without_any_run_it_says_where_they_are_looked_for(tmp_path: Path) -> None:
    with pytest.raises(CannotStart) as caught:
        start(tmp_path / "no", "ft:x")
    assert "logging.runs_dir" in caught.value.hint


def test_a_checkpoint_whose_optimizer_state_is_damaged_has_weights_to_start_from(runs: Path) -> None:
    folder = runs / f"mine-{JOB}/checkpoints/step_8"
    (folder / "optimizer/rank_0.safetensors").write_text("moment?")
    assert start(runs, f"ft:{JOB}").adapter == folder


def test_a_damaged_checkpoint_is_named(runs: Path) -> None:
    (runs / f"mine-{JOB}/checkpoints/step_8/adapter_model.safetensors").write_text("x")
    with pytest.raises(CannotStart, match="is damaged"):
        start(runs, f"ft:{JOB}")
