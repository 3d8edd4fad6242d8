"""At max_lag 0 a run is the plain loop: play everything, learn, sync, repeat; and two runs are the same run.

Bit for bit, on a CPU in float32, with the local engine, `training.deterministic`, a built-in task app and no judge.
"""

from __future__ import annotations

import asyncio
import random
from pathlib import Path

import numpy as np
import pytest

from trainer.config import load
from trainer.learner.protocol import Sequence
from trainer.rollout.episode import Assignment, Episode
from trainer.rollout.player import FirstTries, Player
from trainer.rundir import RunReader, RunWriter
from trainer.services import Services
from trainer.settings import learner_settings, play_rules

EXACT = (
    "services.task_url=builtin:guess",
    "rollout.env_name=guess",
    "rollout.max_turns=2",
    "policy.trainer_mode=lora",
    "policy.max_tokens=8",
    "vllm.max_model_len=512",
    "training.deterministic=true",
    "training.iterations_per_epoch=3",
    "training.batch_size=4",  # two updates an iteration
    "training.weight_sync_interval=4",  # the end of an iteration is synced all the same
    "training.learning_rate=1e-2",
    "training.weight_sync.verify_every_k=0",
    "evaluation.seeds=[10000,10001]",
    "evaluation.instances=2",
    "data.evaluation_split=test",
)


def adapter_of(run_dir: Path) -> bytes:
    newest = RunReader(run_dir).checkpoints()[-1]
    return (newest.path / "adapter_model.safetensors").read_bytes()


@pytest.fixture(scope="module")
def runs(tmp_path_factory):
    from tests.e2e.conftest import Trainer

    trainer = Trainer(tmp_path_factory.mktemp("exact"))
    started = [trainer.start(*EXACT, f"rollout.max_concurrent_rollouts={limit}") for limit in (8, 3)]
    finished = [trainer.finish(*run) for run in started]
    assert [run.code for run in finished] == [0, 0], finished[0].stderr
    return trainer, finished


def test_two_runs_are_the_same_run_however_many_episodes_are_played_at_once(runs):
    _, (one, other) = runs
    assert adapter_of(one.run_dir) == adapter_of(other.run_dir)


def test_a_run_is_the_plain_loop(runs):
    trainer, (run, _) = runs
    loaded = load(trainer.config, sets=EXACT, environ={}).for_model(512)
    trained = asyncio.run(plain_loop(loaded, trainer.folder / "plain"))
    steps = [line["gspo/loss"] for line in run.lines("metrics.jsonl") if "gspo/loss" in line]
    assert len(steps) >= 4, "the tasks teach nothing, so nothing is compared"
    assert trained == adapter_of(run.run_dir)


async def plain_loop(loaded, folder: Path) -> bytes:
    """Everything one after the other: an episode at a time, then the updates, then the weights. The adapter."""
    config, derived, training = loaded.config, loaded.derived, loaded.config.training
    with RunWriter(folder, job_id="rl_0", label="plain", checkpoint_dir=None) as writer:
        async with Services(config, writer) as services:
            await services.start_task_app()
            model = await services.resolve_model(config.policy.model_name)
            await services.start_nodes()
            await services.start_engine_and_learner(config, learner_settings(loaded, model.path))
            client, gateway, rows = services.client, services.gateway, []
            rules = play_rules(config, "rl_0", "train", loaded.blend)
            player = Player(lambda: rules, gateway, client, FirstTries(), lambda episode, _: rows.append(episode))
            never = asyncio.get_running_loop().create_future()
            step = seed = 0
            for iteration in range(1, derived["iterations"] + 1):
                groups = []
                for _ in range(derived["groups"]):
                    members = [
                        await player.play(Assignment("train", iteration, seed, m, seed), never)
                        for m in range(training.group_size)
                    ]
                    groups.append(members)
                    seed += 1
                random.Random(f"{training.seed}-{iteration}").shuffle(groups)
                scored = [pair for members in groups for pair in zip(members, advantages(members), strict=True)]
                for at in range(0, len(scored), derived["U"]):
                    step += 1
                    made = [sequence(e, a, rows.index(e)) for e, a in scored[at : at + derived["U"]] if a is not None]
                    if made:
                        await services.learner.step(step, made)
                weights = folder / f"weights-{iteration}"
                await services.learner.sync(weights, iteration)
                await services.engine.load_weights(weights, iteration)
            checkpoint = folder / "checkpoint"
            checkpoint.mkdir()
            await services.learner.checkpoint(checkpoint, {})
            return (checkpoint / "adapter_model.safetensors").read_bytes()


def advantages(members: list[Episode]) -> list[float | None]:
    rewards = np.array([member.reward.total for member in members])
    if rewards.max() - rewards.min() <= 1e-6:
        return [None] * len(members)
    return list((rewards - rewards.mean()) / (rewards.std() + 1e-6))


def sequence(episode: Episode, advantage: float, n: int) -> Sequence:
    [branch] = episode.branches
    return Sequence(
        n=n,
        branch=0,
        group=episode.assignment.group,
        ids=np.asarray(branch.ids, dtype="<i4").tobytes(),
        mask=np.asarray(branch.mask, dtype="u1").tobytes(),
        logp_behavior=np.asarray(branch.logp, dtype="<f4").tobytes(),
        advantage=float(advantage),
        weight=1.0,
        temperature=1.0,
    )
