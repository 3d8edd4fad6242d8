"""The samples that a CPU can train, two iterations each, as a user starts them: the 135M model and `rltui train`.

Beside the demo they are slow: tests/e2e/test_multi_turn.py plays the multi-turn one with the tiny model.
"""

import json
import subprocess
from pathlib import Path

import pytest

from tests.cli.conftest import command, environment, last_object

SAMPLES = Path(__file__).parents[2] / "sample_configs"

# Fewer episodes, so that it stays cheap; the size of a group is the sample's own. One update is one iteration.
SMALLER = {
    "demo": {"rollout.episodes_per_batch": 16, "training.batch_size": 16, "evaluation.instances": 4},
    "multi_turn": {
        "rollout.episodes_per_batch": 8,
        "rollout.max_turns": 3,
        "training.batch_size": 8,
        "evaluation.instances": 4,
    },
    "rule_judge": {"rollout.episodes_per_batch": 16, "training.batch_size": 16, "evaluation.instances": 4},
    "legacy": {"rollout.episodes_per_batch": 16, "training.batch_size": 16, "data.evaluation_episodes": 4},
}


@pytest.mark.parametrize(
    "name", [name if name == "demo" else pytest.param(name, marks=pytest.mark.slow) for name in SMALLER]
)
def test_two_iterations_of_it(name: str, tmp_path: Path) -> None:
    sample, run_dir = SAMPLES / f"{name}.toml", tmp_path / "run"
    sets = [f"--set={key}={value}" for key, value in {"training.iterations_per_epoch": 2, **SMALLER[name]}.items()]
    done = subprocess.run(
        command(None, "train", sample, "--run-dir", run_dir, "--json", *sets),
        env=_of_nobody(environment()),
        cwd=tmp_path,
        capture_output=True,
        text=True,
        timeout=600,
    )
    assert done.returncode == 0, done.stderr
    found = last_object(done.stdout)
    assert (found["state"], found["end_reason"]) == ("succeeded", "completed")
    assert (found["iteration"], found["step"]) == (2, 2)
    results = found["results"]
    assert results["episodes"] == 2 * SMALLER[name]["rollout.episodes_per_batch"] and not results["excluded"]
    assert all(0 <= results["evaluation"][which] <= 1 for which in ("first", "last"))
    assert [item["step"] for item in results["checkpoints"]] == [2]

    lines = [json.loads(line) for line in (run_dir / "metrics.jsonl").read_text().splitlines()]
    evaluated = [(line["iteration"], line["eval/episodes"]) for line in lines if "eval_step" in line]
    assert evaluated == [(0, 4), (2, 4)]
    assert (run_dir / "config.toml").read_bytes() == sample.read_bytes()
    assert ("old spelling" in done.stderr) is (name == "legacy")
    assert ("reward = 0.5 x the environment + 0.5 x J_outcome" in done.stderr) is (name == "rule_judge")


def _of_nobody(variables: dict[str, str]) -> dict[str, str]:
    """Without what the person who runs the tests has set for runs of their own."""
    return {
        name: value for name, value in variables.items() if not name.startswith("RLTUI__") and name != "TASK_APP_URL"
    }
