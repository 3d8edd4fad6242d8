"""Old spellings: the table against the schema, and what happens when old and new are both given."""

import pytest

from tests.config.texts import SMALL
from trainer.config import all_keys
from trainer.config.migrations import MOVES, NO_EFFECT, VALUE_SPELLINGS


def test_the_table_leads_to_known_keys_only() -> None:
    assert {move.new for move in MOVES} <= set(all_keys())
    assert not {move.old for move in MOVES} & set(all_keys())
    assert not set(NO_EFFECT) & set(all_keys())
    for key, spellings in VALUE_SPELLINGS.items():
        assert {key, *(new for values in spellings.values() for new in values)} <= set(all_keys())


def test_every_canonical_key_is_there() -> None:
    # 173 of CONFIG section 8, less the two that are migrated, less the open `vllm.<other>`
    assert len(all_keys()) == 170


def test_equal_is_a_warning_and_different_an_error_with_both_places(small, errors) -> None:
    text = SMALL + "[lora]\nr = 8\n[training.lora]\nr = {}\n"
    assert [item.code for item in small(text=text.format(8)).warnings] == ["migrated"]
    [problem] = errors(text=text.format(16))
    assert problem.code == "migration_conflict" and (problem.line, problem.column) == (23, 5)
    assert "training.lora.r = 16 at my.toml:25:5" in problem.why


@pytest.mark.parametrize(
    ("old", "key", "value"),
    [
        ("topology.gpu_type='H100:4'", "compute.gpu_count", 4),
        ("training.step_rewards_mode='off'", "training.rewards.step_rewards_mode", "off"),
        ("training.async_semaphore_max=3", "rollout.max_concurrent_rollouts", 3),
        ("reference.placement='stacked'", "compute.topology.reference_placement", "shared"),
        ("rubric.enabled=true", "judge.reward_blend", {"env": 1.0, "event": 0.0, "outcome": 0.0}),
        ("hyperparams.clip_epsilon=0.3", "training.clip_eps_high", 0.3),
        (
            "verifier.reward_blend={outcome = 1.0}",
            "judge.reward_blend",
            {"env": 0, "event": 0, "outcome": 1.0},
        ),
        ("verifier.options.timeout_s=5", "judge.timeout_s", 5),
        ("checkpoint.enabled=false", "checkpoint.every_n_iters", 0),
        ("algorithm.method='gspo'", "algorithm.method", "policy_gradient"),
        ("rubric.event=true", "judge.options.event", True),
        (
            "rubric.outcome.criteria=[{key = 'a', weight = 1.0}]",
            "judge.options.rubric_overrides",
            {"outcome": {"criteria": [{"id": "a", "weight": 1.0}]}},
        ),
    ],
)
def test_old_spellings_take_effect(small, old: str, key: str, value) -> None:
    loaded = small(old)
    found = loaded.values
    for part in key.split("."):
        found = found[part]
    assert found == value
    assert any(item.code in ("migrated", "old_value") for item in loaded.warnings)


def test_no_effect_keys_are_notes_with_a_reason(small) -> None:
    loaded = small("rdma.anything=1", "reference.port=8002")
    assert [item.level for item in loaded.warnings] == ["note", "note"]
    assert all("no effect here: " in item.why for item in loaded.warnings)


def test_a_weak_old_key_only_fills_a_gap(small) -> None:
    text = SMALL + "async_semaphore_max = 3\n"
    text = text.replace("[rollout]", "[rollout]\nmax_concurrent_rollouts = 9")
    assert small(text=text).config.rollout.max_concurrent_rollouts == 9


@pytest.mark.parametrize(
    ("sets", "key", "fix"),
    [
        (["lora.r=8"], "lora.r", "lora.r -> training.lora.r"),
        (["lora.r=8", "training.lora.r=8"], "lora.r", "delete lora.r: training.lora.r is given"),
        (
            ["training.async_semaphore_max=3", "rollout.max_concurrent_rollouts=9"],
            "training.async_semaphore_max",
            "delete training.async_semaphore_max: rollout.max_concurrent_rollouts is given",
        ),
        (
            ["rubric.enabled=true", "judge.reward_blend={ env = 0.5, outcome = 0.5 }"],
            "rubric.enabled",
            "rubric.enabled -> judge.enabled",
        ),
        (["rubric.enabled=true"], "rubric.enabled", "rubric.enabled -> judge.enabled and judge.reward_blend"),
    ],
)
def test_the_fix_of_an_old_key_is_what_became_of_it(small, sets: list[str], key: str, fix: str) -> None:
    assert [item.fix for item in small(*sets).warnings if item.key == key and item.code == "migrated"] == [fix]


@pytest.mark.parametrize(
    ("line", "why", "fix"),
    [
        ("training.rewards.step_rewards_strategy=consistent", "uniform", 'step_rewards_strategy = "uniform"'),
        ("training.weight_sync.targets=['policy']", '["vllm"]', 'targets = ["vllm"]'),
        ("training.weight_sync.mode=direct", "direct = true", "direct = true"),
        ("judge.type=groq", 'judge.options.provider = "groq"', 'type = "llm" and options.provider = "groq"'),
    ],
)
def test_an_old_value_says_what_to_write(small, line: str, why: str, fix: str) -> None:
    text = SMALL + "[{}]\n{} = {}\n".format(*_as_line(line))
    [problem] = [item for item in small(text=text).warnings if item.code == "old_value"]
    assert why in problem.why and problem.fix == fix


def _as_line(text: str) -> tuple[str, str, str]:
    key, _, value = text.partition("=")
    section, _, name = key.rpartition(".")
    return section, name, value if value.startswith("[") else f'"{value}"'


def test_what_an_old_value_would_set_and_does_not_is_not_told(small) -> None:
    text = SMALL + '[judge]\ntype = "groq"\n[judge.options]\nprovider = "openai"\n'
    loaded = small(text=text)
    [problem] = [item for item in loaded.warnings if item.code == "old_value"]
    assert "groq" not in problem.why and loaded.config.judge.options.provider == "openai"
