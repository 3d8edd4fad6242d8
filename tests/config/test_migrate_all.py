"""Every old spelling of the document, one by one: it loads, it says so once, and it lands under its new key."""

from typing import Any

import pytest

from tests.config.texts import SMALL
from trainer.config import ConfigError, load_text
from trainer.config.migrations import MOVES, NO_EFFECT, SECTION_MOVES
from trainer.config.toml_values import format_value

# old key: (value, {new key: what it becomes})
OLD: dict[str, tuple[Any, dict[str, Any]]] = {
    "topology.type": ("single_node_split", {"compute.topology.type": "single_node_split"}),
    "topology.gpus_for_vllm": (1, {"compute.topology.gpus_for_vllm": 1}),
    "topology.gpus_for_training": (1, {"compute.topology.gpus_for_training": 1}),
    "topology.gpus_for_ref": (0, {"compute.topology.gpus_for_ref": 0}),
    "topology.tensor_parallel": (1, {"compute.topology.tensor_parallel": 1}),
    "topology.reference_placement": ("shared", {"compute.topology.reference_placement": "shared"}),
    "topology.gpu_type": ("H100:4", {"compute.gpu_type": "H100", "compute.gpu_count": 4}),
    "reference.placement": ("stacked", {"compute.topology.reference_placement": "shared"}),
    "model.base": ("org/base", {"policy.model_name": "org/base"}),
    "model.source": ("ft:job@2", {"policy.source": "ft:job@2"}),
    "model.trainer_mode": ("full", {"policy.trainer_mode": "full"}),
    "model.label": ("old", {"policy.label": "old"}),
    "model.name": ("org/base", {"policy.model_name": "org/base"}),
    "model.dtype": ("float32", {"training.dtype": "float32"}),
    "model.seed": (3, {"training.seed": 3}),
    "policy.model": ("org/base", {"policy.model_name": "org/base"}),
    "policy.config": ({"a": 1}, {"rollout.policy_config": {"a": 1}}),
    "lora.r": (8, {"training.lora.r": 8}),
    "lora.alpha": (8, {"training.lora.alpha": 8}),
    "lora.dropout": (0.1, {"training.lora.dropout": 0.1}),
    "lora.target_modules": (["q_proj"], {"training.lora.target_modules": ["q_proj"]}),
    "training.step_rewards_enabled": (True, {"training.rewards.step_rewards_enabled": True}),
    "training.step_rewards_mode": ("env_sparse", {"training.rewards.step_rewards_mode": "env_sparse"}),
    "training.step_rewards_indicator_lambda": (0.5, {"training.rewards.step_rewards_indicator_lambda": 0.5}),
    "training.step_rewards_beta": (0.5, {"training.rewards.step_rewards_beta": 0.5}),
    "training.step_rewards_strategy": ("consistent", {"training.rewards.step_rewards_strategy": "uniform"}),
    "training.event_rewards_kind": ("unique", {"training.rewards.event_rewards_kind": "unique"}),
    "step_rewards.enabled": (True, {"training.rewards.step_rewards_enabled": True}),
    "step_rewards.mode": ("off", {"training.rewards.step_rewards_mode": "off"}),
    "step_rewards.step_beta": (0.5, {"training.rewards.step_rewards_beta": 0.5}),
    "step_rewards.indicator_lambda": (0.5, {"training.rewards.step_rewards_indicator_lambda": 0.5}),
    "training.weight_sync.weight_sync_interval": (2, {"training.weight_sync_interval": 2}),
    "training.async_semaphore_max": (3, {"rollout.max_concurrent_rollouts": 3}),
    "training.max_completion_tokens": (64, {"policy.max_tokens": 64}),
    "rollout.max_tokens": (64, {"policy.max_tokens": 64}),
    "training.ops": (["agent"], {"rollout.ops": ["agent"]}),
    "rollout.max_steps_per_episode": (5, {"rollout.max_turns": 5}),
    "rollout.ops_per_rollout": (11, {"rollout.max_turns": 5}),
    "rollout.sampling_temperature": (1.0, {"policy.temperature": 1.0}),
    "rollout.sampling_top_p": (0.9, {"policy.top_p": 0.9}),
    "hyperparams.epsilon_low": (0.1, {"training.clip_eps_low": 0.1}),
    "hyperparams.epsilon_high": (0.3, {"training.clip_eps_high": 0.3}),
    "hyperparams.clip_epsilon": (0.2, {"training.clip_eps_low": 0.2, "training.clip_eps_high": 0.2}),
    "hyperparams.kl_penalty": (0.05, {"training.kl_coef": 0.05}),
    "hyperparams.advantage_normalization": (False, {"training.advantage_std": False}),
    "trainer.batch_size": (8, {"training.batch_size": 8}),
    "trainer.group_size": (8, {"training.group_size": 8}),
    "checkpoint.interval": (5, {"checkpoint.every_n_iters": 5}),
    "checkpoint.directory": ("ckpt", {"checkpoint.dir": "ckpt"}),
    "checkpoint.keep_last_n": (2, {"checkpoint.keep_last": 2}),
    "checkpoint.enabled": (False, {"checkpoint.every_n_iters": 0}),
    "rubric.enabled": (True, {"judge.enabled": True, "judge.reward_blend": {"env": 1.0, "event": 0.0, "outcome": 0.0}}),
    "rubric.reward_blend": ({"env": 0.2}, {"judge.reward_blend": {"env": 0.2, "event": 0.0, "outcome": 0.0}}),
    "rubric.weights": ({"outcome": 0.3}, {"judge.reward_blend": {"env": 1.0, "event": 0.0, "outcome": 0.3}}),
    "rubric.model": ("m", {"judge.options.model": "m"}),
    "rubric.api_base": ("http://localhost:1/", {"judge.options.base_url": "http://localhost:1"}),
    "rubric.api_key_env": ("MY_KEY", {"judge.options.api_key_env": "MY_KEY"}),
    "rubric.event": (True, {"judge.options.event": True}),
    "rubric.outcome": (False, {"judge.options.outcome": False}),
    "rubric.event.rubric_id": ("e@v1", {"judge.options.rubric_id": "e@v1"}),
    "rubric.outcome.rubric_id": ("o@v1", {"judge.options.rubric_id": "o@v1"}),
    "rubric.event.criteria": (
        [{"key": "a.b", "weight": 1.0}],
        {
            "judge.options.rubric_overrides": {"event": {"criteria": [{"id": "a.b", "weight": 1.0}]}},
            "judge.options.event": True,
        },
    ),
    "rubric.outcome.criteria": (
        [{"id": "c"}],
        {"judge.options.rubric_overrides": {"outcome": {"criteria": [{"id": "c"}]}}, "judge.options.outcome": True},
    ),
    "judge.rubric.enabled": (
        True,
        {"judge.enabled": True, "judge.reward_blend": {"env": 1.0, "event": 0.0, "outcome": 0.0}},
    ),
    "judge.rubric.reward_blend": ({"env": 0.2}, {"judge.reward_blend": {"env": 0.2, "event": 0.0, "outcome": 0.0}}),
    "task_app.url": ("http://app:1/", {"services.task_url": "http://app:1"}),
    "hyperparameters.batch_size": (8, {"training.batch_size": 8}),
    "hyperparameters.learning_rate": (1e-4, {"training.learning_rate": 1e-4}),
    "hyperparameters.kl_coef": (0.0, {"training.kl_coef": 0.0}),
    "hyperparameters.gamma": (0.9, {"training.gamma": 0.9}),
    "hyperparameters.n_samples": (8, {"training.group_size": 8}),
    "hyperparameters.max_seq_length": (2048, {"training.max_seq_len": 2048}),
    "hyperparameters.gradient_accumulation_steps": (2, {"training.gradient_accumulation_steps": 2}),
    "logging.log_interval": (2, {"training.log_interval": 2}),
    "logging.checkpoint_interval": (2, {"checkpoint.every_n_iters": 2}),
    "results_folder": ("out", {"logging.runs_dir": "out"}),
    # two that the document lists with the sections of their new names
    "services.verifier_url": ("http://v:1", {"services.judge_url": "http://v:1"}),
    "judge.options.timeout_s": (5, {"judge.timeout_s": 5}),
}
BESIDE = {"hyperparams.kl_penalty": ["compute.topology.reference_placement=shared"]}


def without(text: str, *keys: str) -> str:
    """SMALL without the new keys that an old one stands for."""
    kept, section = [], ""
    for line in text.splitlines():
        section = line[1:-1] if line.startswith("[") else section
        if f"{section}.{line.partition(' =')[0]}" not in keys:
            kept.append(line)
    return "\n".join(kept) + "\n"


def at(values: dict[str, Any], key: str) -> Any:
    for part in key.split("."):
        values = values[part]
    return values


def old_file(old: str, value: Any, *removed: str) -> str:
    text = without(SMALL, *removed)
    section, _, name = old.rpartition(".")
    line = f"{name} = {format_value(value)}"
    if not section:
        return f"{line}\n{text}"
    header = f"[{section}]"
    lines = text.splitlines()
    if header not in lines:
        lines.append(header)
    lines.insert(lines.index(header) + 1, line)
    return "\n".join(lines) + "\n"


def test_the_table_is_the_one_of_the_document() -> None:
    assert set(OLD) == {move.old for move in MOVES}
    assert len(OLD) - 2 + len(["env_file_path"]) == 77  # CONFIG section 8
    assert len(NO_EFFECT) == 26


@pytest.mark.parametrize("old", OLD)
def test_it_loads_says_so_once_and_lands(old: str) -> None:
    value, new = OLD[old]
    removed = [*new, *(["policy.model_name"] if old == "model.source" else [])]
    text = old_file(old, value, *removed)
    loaded = load_text(text, "my.toml", environ={}, device="cuda", sets=BESIDE.get(old, []))
    for key, expected in new.items():
        assert at(loaded.values, key) == expected, key
    [said] = [item for item in loaded.warnings if item.code == "migrated"]
    assert said.level == "warning" and said.key == old and next(iter(new)) in said.why and said.line is not None
    assert text.splitlines()[said.line - 1].startswith(old.rpartition(".")[2])
    origin = loaded.origins[next(iter(new))]
    assert (origin.kind, origin.was) == ("migrated", old) or origin.kind == "derived"


# Old keys that differ from a new one without a conflict, and why.
EXCEPTIONS = {
    "training.async_semaphore_max": "only if that is unset",
    "rollout.ops_per_rollout": "only if no other spelling is given",
    "hyperparams.clip_epsilon": "only where unset",
    "rubric.event.rubric_id": "the new key wins: known configs carry both",
    "rubric.outcome.rubric_id": "the new key wins: known configs carry both",
    "rubric.event.criteria": "the new key wins: known configs carry both",
    "rubric.outcome.criteria": "the new key wins: known configs carry both",
}
OTHER: dict[str, Any] = {
    "compute.topology.type": "single_node_colocate",
    "compute.topology.reference_placement": "dedicated",
    "policy.trainer_mode": "qlora",
    "training.dtype": "bfloat16",
    "rollout.policy_config": {"b": 2},
    "training.lora.target_modules": ["k_proj"],
    "training.rewards.step_rewards_mode": "decision_stepwise",
    "training.rewards.step_rewards_strategy": "per_turn",
    "training.rewards.event_rewards_kind": "absolute",
    "rollout.ops": ["env"],
    "judge.reward_blend": {"event": 0.9},
    "judge.options.rubric_id": "new@v2",
    "judge.options.rubric_overrides": {"event": {"criteria": [{"id": "n"}]}, "outcome": {"criteria": [{"id": "n"}]}},
}


def another(key: str, value: Any) -> Any:
    if key in OTHER:
        return OTHER[key]
    if isinstance(value, bool):
        return not value
    if isinstance(value, float):
        return value / 2 or 0.5
    return value + 1 if isinstance(value, int) else f"{value}x"


@pytest.mark.parametrize("old", OLD)
def test_old_and_new_both_given_and_different(old: str) -> None:
    value, new = OLD[old]
    key, becomes = next(iter(new.items()))
    other = another(key, becomes)
    removed = [*new, *(["policy.model_name"] if old == "model.source" else [])]
    document = old_file(old, value, *removed)
    text = f"{key} = {format_value(other)}\n" if "." not in key else ""
    section, _, name = key.rpartition(".")
    lines = document.splitlines()
    if f"[{section}]" not in lines:
        lines.append(f"[{section}]")
    lines.insert(lines.index(f"[{section}]") + 1, f"{name} = {format_value(other)}")
    text = "\n".join(lines) + "\n"
    sets = BESIDE.get(old, [])
    if old in EXCEPTIONS:
        loaded = load_text(text, "my.toml", environ={}, device="cuda", sets=sets)
        assert at(loaded.values, key) == other
        [said] = [item for item in loaded.warnings if item.code == "migrated"]
        assert "is kept" in said.why or "wins" in said.why
        return
    with pytest.raises(ConfigError) as caught:
        load_text(text, "my.toml", environ={}, device="cuda", sets=sets)
    [problem] = [item for item in caught.value.problems if item.code == "migration_conflict"]
    assert problem.key == old and problem.line is not None
    assert key in problem.why and f"at my.toml:{lines.index(f'{name} = {format_value(other)}') + 1}:" in problem.why


NO_EFFECT_KEYS = [key.replace(".*", ".anything") for key in NO_EFFECT]


@pytest.mark.parametrize("key", NO_EFFECT_KEYS)
def test_recognised_without_effect_is_a_note_with_the_reason(small, key: str) -> None:
    loaded = small(f"{key}=1")
    [note] = loaded.warnings
    assert (note.level, note.code, note.key) == ("note", "no_effect", key)
    reason = NO_EFFECT.get(key) or NO_EFFECT[key.partition(".")[0] + ".*"]
    assert note.why == f"recognised, no effect here: {reason}"
    assert loaded.config_hash == small().config_hash


def test_more_than_one_inner_step_is_a_warning(small) -> None:
    assert [item.level for item in small("hyperparams.num_inner_steps=2").warnings] == ["warning"]


def test_a_kl_penalty_without_a_reference_is_noted(small) -> None:
    loaded = small("hyperparams.kl_penalty=0.1")
    assert loaded.config.training.kl_coef == 0.0
    assert [(item.level, item.key) for item in loaded.warnings] == [("note", "hyperparams.kl_penalty")]


def test_the_placement_may_come_from_another_source(small) -> None:
    text = SMALL + "[hyperparams]\nkl_penalty = 0.1\n"
    loaded = small("topology.reference_placement=shared", text=text)
    assert loaded.config.training.kl_coef == 0.1


def test_checkpoints_switched_off_take_their_interval_along(small) -> None:
    text = SMALL + "[checkpoint]\ninterval = 5\nenabled = {}\n"
    assert small(text=text.format("false")).config.checkpoint.every_n_iters == 0
    assert small(text=text.format("true")).config.checkpoint.every_n_iters == 5


def test_the_rubric_defaults_only_fill_a_gap(small) -> None:
    """The old section's default blend comes with `enabled`, unless any source gives one."""
    text = SMALL + "[rubric]\nenabled = true\nweights = { outcome = 1.0 }\n"
    assert small(text=text).blend == {"env": 1.0, "event": 0.0, "outcome": 1.0}
    text = SMALL + "[judge]\nreward_blend = { outcome = 0.5 }\n"
    assert small("rubric.enabled=true", text=text).blend == {"env": 0.0, "event": 0.0, "outcome": 0.5}
    text = SMALL + "[rubric]\nenabled = true\n"
    assert small("judge.reward_blend={ outcome = 0.5 }", text=text).blend == {"env": 0.0, "event": 0.0, "outcome": 0.5}


def test_a_weak_old_key_of_a_strong_source_fills_a_gap_only(small) -> None:
    text = SMALL.replace("[rollout]", "[rollout]\nmax_concurrent_rollouts = 9")
    loaded = small("training.async_semaphore_max=3", text=text)
    assert loaded.config.rollout.max_concurrent_rollouts == 9
    [note] = [item for item in loaded.warnings if item.code == "beaten"]
    assert (note.key, note.value) == ("rollout.max_concurrent_rollouts", "3") and "my.toml:12:27: 9" in note.why


def test_criteria_of_both_kinds_merge_and_new_ones_win(small) -> None:
    text = SMALL + (
        "[rubric]\nenabled = true\n"
        "[rubric.event]\ncriteria = [{ key = 'old' }]\n"
        "[rubric.outcome]\ncriteria = [{ key = 'kept' }]\n"
        "[judge.options.rubric_overrides.event]\ncriteria = [{ id = 'new' }]\n"
    )
    options = small(text=text).config.judge.options
    assert options.rubric_overrides == {
        "event": {"criteria": [{"id": "new"}]},
        "outcome": {"criteria": [{"id": "kept"}]},
    }
    assert (options.event, options.outcome) == (True, True)
    assert small("judge.options.event=false", text=text).config.judge.options.event is False


def test_verifier_is_migrated_whole(small) -> None:
    assert dict(SECTION_MOVES) == {"verifier": "judge"}
    text = SMALL + (
        "[verifier]\nenabled = true\ntype = 'groq'\nreward_blend = { env = 0.5, event = 0.5 }\n"
        "[verifier.options]\nevent = true\ntimeout_s = 7\nmodel = 'm'\n"
        "[verifier.rubric]\nenabled = true\n"
    )
    loaded = small(text=text)
    judge = loaded.config.judge
    assert (judge.enabled, judge.type, judge.timeout_s, judge.options.provider) == (True, "llm", 7, "groq")
    assert loaded.blend == {"env": 0.5, "event": 0.5, "outcome": 0.0}
    said = [item.key for item in loaded.warnings if item.code == "migrated"]
    assert said.count("verifier.options.timeout_s") == 1 and len(said) == len(set(said)) == 7


def test_verifier_and_judge_that_differ_are_a_conflict(errors) -> None:
    [problem] = errors(text=SMALL + "[judge]\nenabled = true\n[verifier]\nenabled = false\n")
    assert problem.code == "migration_conflict" and problem.key == "verifier.enabled"


@pytest.mark.parametrize(
    ("key", "old", "new"),
    [
        ("algorithm.method", "gspo", {"algorithm.method": "policy_gradient", "algorithm.variety": "gspo"}),
        ("compute.topology.reference_placement", "stacked", {"compute.topology.reference_placement": "shared"}),
        (
            "training.weight_sync.mode",
            "direct",
            {"training.weight_sync.direct": True, "training.weight_sync.mode": "lora"},
        ),
        ("training.weight_sync.targets", ["policy"], {"training.weight_sync.targets": ["vllm"]}),
        ("training.rewards.step_rewards_strategy", "simple", {"training.rewards.step_rewards_strategy": "uniform"}),
        ("training.rewards.step_rewards_strategy", "complex", {"training.rewards.step_rewards_strategy": "per_turn"}),
        ("judge.type", "anthropic", {"judge.type": "llm", "judge.options.provider": "anthropic"}),
        ("judge.type", "none", {"judge.type": "llm", "judge.enabled": False}),
    ],
)
def test_values_whose_spelling_changed(small, key: str, old: Any, new: dict[str, Any]) -> None:
    variety = ["algorithm.variety=gspo"] if key == "algorithm.method" else []
    loaded = small(*variety, f"{key}={format_value(old)}", device="cuda")
    for name, value in new.items():
        assert at(loaded.values, name) == value
    [said] = [item for item in loaded.warnings if item.code == "old_value"]
    assert (said.level, said.key, said.value) == ("warning", key, format_value(old))


def test_a_provider_that_is_given_stays(small) -> None:
    loaded = small("judge.type=openai", "judge.options.provider=groq", "judge.enabled=true")
    assert loaded.config.judge.options.provider == "groq"
