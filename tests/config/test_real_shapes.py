"""The shapes of configs found in the wild, in words and numbers of our own: what loads, what does not, what helps."""

from collections import Counter
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest

from tests.config.printed_fixes import apply_fixes
from trainer.config import ConfigError, Loaded, load_text
from trainer.config.machine import Machine
from trainer.config.rewrite import rewrite

FOLDER = Path(__file__).parent / "real_shapes"
NAMES = sorted(path.stem for path in FOLDER.glob("*.toml"))


@dataclass(frozen=True)
class Shape:
    """
    Attributes:
        says: how often each code is warned of or noted, once the errors are mended; without what comes later.
        errors: code and key of each error, in the order of the file.
        values: what it resolves to then, by key.
    """

    says: dict[str, int]
    errors: list[tuple[str, str]] = field(default_factory=list)
    values: dict[str, Any] = field(default_factory=dict)


SHAPES: dict[str, Shape] = {
    "topology_and_model": Shape(
        {
            "migrated": 19,
            "old_value": 3,
            "gpus_found": 1,
            "dropout": 1,
            "beta": 1,
            "canary": 1,
            "context_budget": 1,
        },
        values={
            "policy.model_name": "some-org/some-4b",
            "training.lora.alpha": 24,
            "training.rewards.step_rewards_strategy": "uniform",
            "training.rewards.step_rewards_beta": 1.0,
            "training.weight_sync.targets": ["vllm"],
            "training.weight_sync.direct": True,
            "rollout.max_concurrent_rollouts": 10,
        },
    ),
    "per_achievement": Shape(
        {"migrated": 12, "old_value": 1, "gspo_token": 1, "gpus_found": 1, "beta": 1, "no_effect": 1},
        values={
            "algorithm.variety": "gspo_token",
            "training.rewards.step_rewards_beta": 1.0,
            "training.rewards.step_rewards_strategy": "per_turn",
            "training.step_rewards_k_limits": {"dig": 3, "plant": 2, "water": 0},
            "services.task_url": "http://10.0.0.5:9000",
        },
    ),
    "model_twice": Shape(
        {
            "migrated": 9,
            "old_value": 1,
            "no_effect": 9,
            "sampling": 1,
            "gpus_found": 1,
            "idle_gpus": 1,
            "evaluation_repeats": 1,
            "uneven_updates": 1,
        },
        errors=[("missing", "")],
        values={
            "policy.model_name": "some-org/some-2b",
            "policy.trainer_mode": "lora",
            "compute.topology.reference_placement": "dedicated",
            "compute.topology.gpus_for_ref": 1,
            "data.seed_start": 7,
        },
    ),
    "oldest": Shape(
        {"migrated": 16, "no_effect": 6, "beta": 1},
        errors=[("missing", "")],
        values={
            "training.group_size": 6,
            "training.clip_eps_low": 0.15,
            "training.clip_eps_high": 0.15,
            "training.kl_coef": 0.0,
            "training.seed": 11,
            "rollout.max_turns": 8,
            "policy.max_tokens": 400,
            "checkpoint.every_n_iters": 5,
            "checkpoint.dir": "old-checkpoints",
            "training.rewards.step_rewards_indicator_lambda": 0.7,
        },
    ),
    "cookbook": Shape(
        {"migrated": 11, "no_effect": 2},
        errors=[("missing", "")],
        values={
            "services.task_url": "http://localhost:8555",
            "training.group_size": 5,
            "training.max_seq_len": 2048,
            "training.log_interval": 2,
            "checkpoint.every_n_iters": 15,
            "rollout.policy_config": {"top_p": 0.9},
            "logging.runs_dir": "cookbook-results",
        },
    ),
    "unequal_turns": Shape(
        {"migrated": 9, "no_effect": 1, "gpus_found": 1, "uneven_updates": 1},
        errors=[("max_turns", "training.max_turns")],
        values={"training.max_turns": 10, "rollout.max_turns": 10},
    ),
    "rubric_and_judge": Shape(
        {"migrated": 13, "old_value": 1, "no_effect": 3, "policy_config": 1},
        values={
            "judge.enabled": True,
            "judge.type": "llm",
            "judge.reward_blend": {"env": 0.1, "event": 0.3, "outcome": 0.6},
            "judge.options.provider": "openai",
            "judge.options.rubric_id": "kitchen/both",
            "judge.options.api_key_env": "KITCHEN_JUDGE_KEY",
            "judge.timeout_s": 25.0,
            "rollout.max_concurrent_rollouts": 6,
        },
    ),
    "judge_tables_last": Shape(
        {"migrated": 5, "no_effect": 1},
        errors=[("max_turns", "training.max_turns")],
        values={"judge.timeout_s": 20.0, "judge.reward_blend": {"env": 0.5, "event": 0.2, "outcome": 0.3}},
    ),
    "vision": Shape(
        {"migrated": 4, "no_effect": 3, "local_engine": 1, "accumulation": 1},
        values={
            "vllm.limit_mm_per_prompt.image": 2,
            "judge.timeout_s": 12.0,
            "tags": {"task": "maps_vision", "vision_enabled": True},
        },
    ),
    "huge_group": Shape(
        {"migrated": 5, "no_effect": 2, "evaluation_repeats": 1, "uneven_updates": 1},
        errors=[("type", "policy.temperature"), ("batch_arithmetic", "training.group_size")],
        values={"training.group_size": 200, "policy.temperature": 0.7},
    ),
    "new_sections": Shape(
        {"old_value": 3, "gpus_found": 1, "sampling": 1, "dropout": 1, "beta": 1, "canary": 1},
        values={"training.weight_sync.targets": ["vllm"], "training.lora.alpha": 32},
    ),
    "smoke_and_both_topologies": Shape(
        {"migrated": 13, "old_value": 1, "no_effect": 1, "gpus_found": 1, "judge_off": 1},
        values={
            "policy.max_tokens": 200,
            "rollout.max_concurrent_rollouts": 3,
            "smoke.use_mock": True,
            "compute.topology.reference_placement": "none",
        },
    ),
}


def loaded(text: str, name: str) -> Loaded:
    return load_text(text, f"{name}.toml", environ={}, machine=Machine(0))


def mended(name: str) -> tuple[str, Loaded]:
    """The shape with its printed fixes applied, if it needs any."""
    text = (FOLDER / f"{name}.toml").read_text(encoding="utf-8")
    try:
        return text, loaded(text, name)
    except ConfigError as error:
        text, sets = apply_fixes(text, error.problems)
        assert sets == []  # each of these can be typed into the file
        return text, loaded(text, name)


def test_all_are_there() -> None:
    assert set(NAMES) == set(SHAPES)


@pytest.mark.parametrize("name", NAMES)
def test_it_fails_as_told_or_loads(name: str) -> None:
    text = (FOLDER / f"{name}.toml").read_text(encoding="utf-8")
    errors = []
    try:
        loaded(text, name)
    except ConfigError as error:
        errors = [(problem.code, problem.key) for problem in error.problems]
    assert errors == SHAPES[name].errors


@pytest.mark.parametrize("name", NAMES)
def test_with_the_printed_fixes_it_loads_and_means_what_it_meant(name: str) -> None:
    _, found = mended(name)
    assert Counter(item.code for item in found.warnings) == SHAPES[name].says
    for key, value in SHAPES[name].values.items():
        at: Any = found.values
        for part in key.split("."):
            at = at[part]
        assert at == value, key


@pytest.mark.parametrize("name", NAMES)
def test_migrated_it_resolves_to_the_same_values(name: str) -> None:
    text, found = mended(name)
    rewritten = rewrite(text, name).text
    again = loaded(rewritten, name)
    assert again.values == found.values
    assert not {"migrated", "old_value"} & {problem.code for problem in again.warnings}
    assert rewrite(rewritten, name).text == rewritten


def test_the_new_judge_table_wins_over_the_rubrics_criteria() -> None:
    _, found = mended("rubric_and_judge")
    options = found.config.judge.options
    assert options.event and options.outcome
    first = options.rubric_overrides["event"]["criteria"][0]
    assert (first["id"], first["scale"]) == ("progress.dish", "binary")
    assert found.config.rollout.env_config["step_rewards"] == {"enabled": True, "step_beta": 0.0}
