"""What docs/pains.md promises of a whole run and no part of it can show."""

from __future__ import annotations

import pytest

from tests.e2e.test_faults import check
from trainer.rundir import RunReader

HELD_OUT = (
    "evaluation.instances=10",
    "evaluation.seeds=[100,101,102,103,104,105,106,107,108,109]",
    "evaluation.temperature=1.0",
)
# What an engine that answers well and loads nothing looks like from outside.
IGNORES = """
from trainer.inference.local import LocalEngine

async def ignore(self, path, version):
    self.weight_version = version

LocalEngine.load_weights = ignore
"""


@pytest.mark.slow
def test_an_engine_that_ignores_the_weights_it_is_sent_ends_the_run(trainer):
    process, run_dir = trainer.start(
        "training.iterations_per_epoch=20",
        "training.learning_rate=1e-2",
        "training.weight_sync.verify_every_k=1",
        first=IGNORES,
    )
    run = trainer.finish(process, run_dir)
    status = check(run, code=3, state="failed", says="")
    assert status["error"]["code"] == "weight_sync_mismatch" and status["error"]["hint"]
    assert status["step"] < 20
    assert [line["canary/failed"] for line in run.lines("metrics.jsonl") if line.get("canary/failed")]


@pytest.mark.slow
@pytest.mark.parametrize("lag", [1, 4])
def test_the_policy_learns_from_episodes_that_are_behind(trainer, lag):
    run = trainer.run(
        f"training.max_lag={lag}",
        "training.iterations_per_epoch=30",
        "rollout.episodes_per_batch=32",
        "rollout.max_concurrent_rollouts=64",
        "training.batch_size=32",
        "training.group_size=8",
        "training.learning_rate=2e-3",
        *HELD_OUT,
    )
    assert run.code == 0, run.stderr
    steps = [line for line in run.lines("metrics.jsonl") if "off_policy/max" in line]
    assert max(line["off_policy/max"] for line in steps) == lag  # or it would show nothing of it
    evaluation = run.status["results"]["evaluation"]
    assert evaluation["last"] > evaluation["first"] + 0.1


@pytest.mark.slow
def test_every_episode_of_100_iterations_can_be_read(trainer):
    run = trainer.run("training.iterations_per_epoch=100", "training.learning_rate=1e-4", "evaluation.instances=1")
    assert run.code == 0, run.stderr
    reader = RunReader(run.run_dir)
    rows = [row for row in reader.index() if row["split"] != "eval"]
    assert {i: sum(row["iteration"] == i for row in rows) for i in range(1, 101)} == dict.fromkeys(range(1, 101), 8)
    used = 0
    for row in rows:
        assert reader.episode(row["n"])["turns"][0]["messages"][1]["role"] == "assistant"
        assert len(reader.token_block(row["arr"])["ids"]) == sum(row["tok"])
        steps = {line["step"] for line in reader.updates(row["n"]) if line["kind"] == "use"}
        assert steps <= {row["iteration"]}  # one update an iteration; a group of equal rewards is in none
        used += len(steps)
    assert used > 600
