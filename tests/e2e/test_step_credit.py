"""Step rewards with per-turn credit, on the tiny model: what a turn earned reaches the tokens of that turn."""

import numpy as np
import pytest

from trainer.rundir import RunReader

SETS = (
    "services.task_url=builtin:guess",
    "algorithm.variety=gspo_token",
    "rollout.env_config={ low = 1, high = 9 }",  # a random model says a digit now and then
    "rollout.max_turns=3",
    "vllm.max_model_len=512",
    "data.seed_count=1000",
    "training.rewards.step_rewards_enabled=true",
    "training.rewards.step_rewards_mode=decision_stepwise",
    "training.rewards.step_rewards_beta=0.5",
    "training.rewards.step_rewards_strategy=per_turn",
    "training.rewards.event_rewards_kind=unique",
    "training.step_rewards_weights={ halved_the_range = 2.0 }",
)


@pytest.fixture(scope="module")
def run(tmp_path_factory):
    from tests.e2e.conftest import Trainer

    finished = Trainer(tmp_path_factory.mktemp("credit")).run(*SETS)
    assert finished.code == 0, finished.stderr
    return finished


@pytest.fixture(scope="module")
def groups(run):
    """Trained episodes, a list a group, in member order."""
    reader = RunReader(run.run_dir)
    return [
        [reader.episode(n) for n in line["members"]] for line in run.lines("rollouts/groups.jsonl") if not line["dead"]
    ]


@pytest.mark.slow
def test_turns_are_recorded_with_what_they_earned(groups):
    earned = 0
    for episode in (episode for group in groups for episode in group):
        rewards, turns = episode["rewards"], episode["turns"]
        assert rewards["steps"] == [turn["step_r"] for turn in turns]
        for turn in turns:
            names = turn.get("achievements") or []
            event = sum(2.0 if name == "halved_the_range" else 1.0 for name in names)
            assert turn["event_reward"] == event
            assert turn["step_r"] == pytest.approx(event + 0.1 * bool(names or turn["reward"] > 0))
            earned += event > 0
        assert episode["R"] == pytest.approx(rewards["O"] + 0.5 * sum(rewards["steps"]), abs=1e-5)
        assert episode["sr"] == pytest.approx(sum(rewards["steps"]), abs=1e-5)
    assert earned, "no turn unlocked anything, so nothing is compared"


@pytest.mark.slow
def test_the_tokens_of_a_turn_get_its_advantage(run, groups):
    reader, compared = RunReader(run.run_dir), set()
    used = {line["n"]: line for line in run.lines("rollouts/updates.jsonl") if line["kind"] == "use"}
    closed = {line["n"]: line for line in run.lines("rollouts/updates.jsonl") if line["kind"] == "group"}
    for group in groups:
        returns = [
            [e["rewards"]["O"] + 0.5 * sum(e["rewards"]["steps"][t:]) for t in range(len(e["turns"]))] for e in group
        ]
        every = np.concatenate(returns)
        for episode, own in zip(group, returns, strict=True):
            assert closed[episode["n"]]["adv"] is None
            adv = reader.token_block(used[episode["n"]]["arr"])["adv"]
            sampled = np.zeros(len(adv), bool)
            for turn in episode["turns"]:
                t, (start, end) = turn["t"], turn["span"]
                reach = [other[t] for other in returns if len(other) > t]
                baseline = np.mean(reach) if len(reach) > 1 else every.mean()
                expected = (own[t] - baseline) / (every.std() + 1e-6)
                assert adv[start:end] == pytest.approx(expected, abs=1e-5)
                sampled[start:end] = True
                compared.add(round(float(expected), 6))
            assert not adv[~sampled].any()
    assert len(compared) > 3, "the turns earned alike, so nothing is compared"


@pytest.mark.slow
def test_updates_are_made_of_it(run):
    steps = [line for line in run.lines("metrics.jsonl") if "optim/grad_norm" in line]
    assert len(steps) == 2 and all(line["optim/grad_norm"] > 0 for line in steps)
    for line in steps:
        assert line["reward/env"] == pytest.approx(line["reward/mean"]) and "reward/event" not in line
