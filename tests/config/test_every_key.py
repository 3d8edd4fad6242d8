"""Each canonical key: one value that loads and lands, one that is refused with a place, what is allowed, and a fix.

The table is driven from the schema: a new key without a row fails.
"""

from typing import Any

import pytest

from tests.config.printed_fixes import apply_fixes
from tests.config.texts import SMALL
from trainer.config import ConfigError, all_keys, load_text
from trainer.config.toml_values import parse_value

NUMBER, WORD, TABLE = '"x"', "3", "3"  # wrong for a number, for a string, for a table
FLAG = '"maybe"'

# key: (a valid value that is not the default, a wrong one)
ROWS: dict[str, tuple[str, str]] = {
    "type": ('"rl"', '"sft"'),
    "algorithm.type": ('" Online "', '"offline"'),
    "algorithm.method": ('"ppo"', '"dpo"'),
    "algorithm.variety": ('"grpo"', '"reinforce"'),
    "services.task_url": ('"builtin:facts"', '"ftp://host"'),
    "services.judge_url": ('"https://judge.example/api/"', '"judge"'),
    "compute.gpu_type": ('"H100"', '""'),
    "compute.gpu_count": ("2", "-1"),
    "compute.nodes": ("2", "0"),
    "compute.launcher": ('"slurm"', '"kubernetes"'),
    "compute.launcher_options": ('{ partition = "gpu", time = 60 }', "{ partition = [1] }"),
    "compute.topology.type": ('"single_node_colocate"', '"two_nodes"'),
    "compute.topology.gpus_for_vllm": ("2", "-1"),
    "compute.topology.gpus_for_training": ("2", "1.5"),
    "compute.topology.gpus_for_ref": ("1", NUMBER),
    "compute.topology.tensor_parallel": ("2", "0"),
    "compute.topology.reference_placement": ('"shared"', '"remote"'),
    "vllm.tensor_parallel_size": ("2", "0"),
    "vllm.max_model_len": ("4096", "0"),
    "vllm.gpu_memory_utilization": ("0.5", "1.0"),
    "vllm.max_num_seqs": ("64", "0"),
    "vllm.enforce_eager": ("true", "1"),
    "vllm.max_parallel_generations": ("8", "0"),
    "vllm.limit_mm_per_prompt.image": ("2", "-1"),
    "vllm.tool_call_parser": ('"hermes"', '""'),
    "policy.model_name": ('"Qwen/Qwen3-4B"', '""'),
    "policy.source": ('"ft:job@3"', WORD),
    "policy.trainer_mode": ('"full"', '"lorra"'),
    "policy.label": ('"other"', '""'),
    "policy.max_tokens": ("64", "0"),
    "policy.temperature": ("1.0", "0.0"),
    "policy.top_p": ("0.9", "1.5"),
    "policy.top_k": ("20", "0"),
    "policy.repetition_penalty": ("1.1", "0.0"),
    "policy.stop_sequences": ('["###"]', '"###"'),
    "policy.inference_url": ('"http://localhost:9000"', '"localhost"'),
    "rollout.env_name": ('"other"', '""'),
    "rollout.policy_name": ('"other"', WORD),
    "rollout.env_config": ("{ level = 2 }", "[1]"),
    "rollout.policy_config": ('{ tools = ["x"] }', '"x"'),
    "rollout.max_turns": ("3", '"one"'),
    "rollout.episodes_per_batch": ("64", "1"),
    "rollout.max_concurrent_rollouts": ("8", "0"),
    "rollout.batches_per_step": ("2", "0"),
    "rollout.ops": ('["agent"]', "[]"),
    "rollout.on_done": ('"terminate"', '"stop"'),
    "rollout.timeout_s": ("30", "0"),
    "rollout.max_retries": ("0", "11"),
    "rollout.max_excluded_fraction": ("1", "1.1"),
    "rollout.max_refill_groups": ("2", "-1"),
    "rollout.task_app_origin_rewards_only": ("true", FLAG),
    "rollout.rubric_rewards_only": ("true", FLAG),
    "rollout.thinking_mode": ('"no_think"', WORD),
    "rollout.thinking_budget": ("256", "-1"),
    "rollout.use_vision": ("true", FLAG),
    "rollout.image_only_mode": ("true", FLAG),
    "rollout.max_images_per_step": ("1", "-1"),
    "data.seed_start": ("100", "-1"),
    "data.seed_count": ("50", "0"),
    "data.split": ('"train"', WORD),
    "data.evaluation_split": ('"test"', WORD),
    "data.evaluation_episodes": ("8", "0"),
    "data.episodes_per_iteration": ("32", "0"),
    "evaluation.instances": ("4", "-1"),
    "evaluation.every_n_iters": ("1", "-1"),
    "evaluation.seeds": ("[7, 8]", "[]"),
    "evaluation.temperature": ("0.7", "-0.1"),
    "evaluation.rollouts_per_seed": ("2", "0"),
    "evaluation.max_concurrent_rollouts": ("4", "0"),
    "evaluation.thinking_mode": ('"think"', WORD),
    "training.num_epochs": ("2", "0"),
    "training.iterations_per_epoch": ("5", "0"),
    "training.gradient_accumulation_steps": ("2", "0"),
    "training.max_accumulated_minibatch": ("1", "0"),
    "training.max_turns": ("2", "0"),
    "training.batch_size": ("8", "0"),
    "training.group_size": ("8", "1"),
    "training.learning_rate": ("1", "0.0"),
    "training.log_interval": ("1", "0"),
    "training.weight_sync_interval": ("2", "0"),
    "training.max_lag": ("0", "-1"),
    "training.anchor": ('"proximal"', '"reference"'),
    "training.clip_eps_low": ("0.1", "1.0"),
    "training.clip_eps_high": ("1.5", "0.0"),
    "training.loss_aggregation": ('"length_weighted"', '"token_mean"'),
    "training.advantage_std": ("false", FLAG),
    "training.mask_truncated": ("true", FLAG),
    "training.kl_coef": ("0.1", "-0.1"),
    "training.gamma": ("0.99", "1.1"),
    "training.gae_lambda": ("1.0", "-0.1"),
    "training.value_coef": ("0.1", "-0.1"),
    "training.max_grad_norm": ("0.5", "0.0"),
    "training.lr_schedule": ('"cosine"', '"step"'),
    "training.warmup_iters": ("1", "-1"),
    "training.weight_decay": ("0.01", "-0.1"),
    "training.seed": ("7", "-1"),
    "training.deterministic": ("true", FLAG),
    "training.dtype": ('"float16"', '"int8"'),
    "training.gradient_checkpointing": ("true", FLAG),
    "training.max_seq_len": ("2048", "0"),
    "training.micro_batch_tokens": ("8192", "0"),
    "training.max_minutes": ("90", "0"),
    "training.step_rewards_weights": ("{ collect_wood = 2 }", '{ collect_wood = "2" }'),
    "training.step_rewards_k_limits": ("{ collect_wood = 0 }", "{ collect_wood = 0.5 }"),
    "training.weight_sync.enable": ("false", FLAG),
    "training.weight_sync.targets": ("[]", '["trainer"]'),
    "training.weight_sync.mode": ('"lora"', '"delta"'),
    "training.weight_sync.direct": ("false", FLAG),
    "training.weight_sync.verify_every_k": ("5", "-1"),
    "training.lora.r": ("8", "0"),
    "training.lora.alpha": ("8", "0"),
    "training.lora.dropout": ("0.1", "1.0"),
    "training.lora.target_modules": ('["q_proj"]', "[]"),
    "training.rewards.step_rewards_enabled": ("true", FLAG),
    "training.rewards.step_rewards_mode": ('"env_sparse"', '"on"'),
    "training.rewards.step_rewards_indicator_lambda": ("0.5", "-0.1"),
    "training.rewards.step_rewards_beta": ("0.5", "-0.1"),
    "training.rewards.step_rewards_strategy": ('"per_turn"', '"per_token"'),
    "training.rewards.event_rewards_kind": ('"unique"', '"sum"'),
    "judge.type": ('"rule"', '"human"'),
    "judge.timeout_s": ("5", "0"),
    "judge.enabled": ("true", FLAG),
    "judge.reward_blend": ("{ env = 1.0 }", "{ env = -1.0 }"),
    "judge.event_aggregation": ('"sum"', '"max"'),
    "judge.options.event": ("true", FLAG),
    "judge.options.outcome": ("false", FLAG),
    "judge.options.provider": ('"groq"', '""'),
    "judge.options.model": ('"m"', '""'),
    "judge.options.base_url": ('"http://localhost:1234"', '"localhost"'),
    "judge.options.api_key_env": ('"MY_KEY"', '"my key"'),
    "judge.options.rubric_id": ('"r@v1"', '""'),
    "judge.options.rubric_overrides": ('{ event = { aggregation = "sum" } }', "3"),
    "judge.options.tracks": ('["process"]', '"process"'),
    "judge.options.weights": ("{ process = 1 }", "{ process = -1 }"),
    "judge.options.max_concurrency": ("2", "0"),
    "judge.options.metadata": ("{ a = 1 }", TABLE),
    "tags": ('{ team = ["a", "b"], run = 3 }', "{ team = { a = 1 } }"),
    "smoke.task_url": ('"http://localhost:9"', '"ftp://x"'),
    "smoke.env_name": ('"x"', WORD),
    "smoke.policy_name": ('"x"', WORD),
    "smoke.max_steps": ("3", "0"),
    "smoke.policy": ('"http://localhost:9"', '"robot"'),
    "smoke.model": ('"m"', '""'),
    "smoke.mock_backend": ('"openai"', '"none"'),
    "smoke.mock_port": ("9000", "70000"),
    "smoke.return_trace": ("true", FLAG),
    "smoke.use_mock": ("true", FLAG),
    "smoke.task_app_name": ('"app.py"', '""'),
    "smoke.task_app_port": ("9000", "80"),
    "smoke.task_app_env_file": ('".env"', '""'),
    "smoke.task_app_force": ("true", FLAG),
    "smoke.sqld_auto_start": ("true", FLAG),
    "smoke.sqld_db_path": ('"x.db"', '""'),
    "smoke.sqld_hrana_port": ("9000", "70000"),
    "smoke.sqld_http_port": ("9001", "-1"),
    "checkpoint.every_n_iters": ("0", "-1"),
    "checkpoint.keep_last": ("1", "0"),
    "checkpoint.keep_best": ("0", "-1"),
    "checkpoint.dir": ('"/scratch"', '""'),
    "inference.engine": ('"local"', '"sglang"'),
    "inference.url": ('"http://localhost:8000"', '"localhost:8000"'),
    "inference.gateway_host": ('"0.0.0.0"', '""'),
    "inference.gateway_port": ("9000", "65536"),
    "inference.public_url": ('"https://x.example"', '"x.example"'),
    "inference.tunnel": ('"quick"', '"ngrok"'),
    "inference.startup_timeout_s": ("60", "0"),
    "logging.runs_dir": ('"/data/runs"', '""'),
    "logging.tensorboard": ("true", FLAG),
    "logging.wandb": ('"project"', "3"),
    "logging.trackio": ("true", '""'),
}

# What a valid value needs beside it.
BESIDE: dict[str, list[str]] = {
    "algorithm.method": ["algorithm.variety=ppo"],
    "compute.nodes": ["compute.launcher=slurm"],
    "compute.topology.gpus_for_ref": ["compute.topology.reference_placement=dedicated"],
    "compute.topology.tensor_parallel": [],
    "policy.source": [],
    "rollout.rubric_rewards_only": ["judge.enabled=true"],
    "training.kl_coef": ["compute.topology.reference_placement=shared"],
    "training.rewards.step_rewards_strategy": ["algorithm.variety=grpo"],
    "training.weight_sync.mode": ["inference.engine=vllm"],
    "judge.options.outcome": ["judge.options.event=true"],
}
EVALUATION = "[evaluation]\ninstances = 2\nevery_n_iters = 2\nseeds = [1000, 1001]\n"
# Where the loaded value is not the given one, and why.
LANDS: dict[str, Any] = {
    "algorithm.type": "online",  # case and outer spaces are ignored
    "services.judge_url": "https://judge.example/api",  # a trailing slash is dropped
    "compute.topology.type": "cpu",  # there is no GPU here
    "training.weight_sync.enable": False,
    "judge.reward_blend": {"env": 1.0, "event": 0.0, "outcome": 0.0},
}


def text_with(key: str, value: str) -> str:
    """SMALL, an evaluation, and `key = value` in the place where a person would write it."""
    section, _, name = key.rpartition(".")
    text = SMALL + EVALUATION
    if key == "policy.source":
        text = text.replace('model_name = "builtin:tiny"\n', "")
    lines = [line for line in text.splitlines() if not _assigns(line, name) or not _within(text, line, section)]
    header = f"[{section}]"
    if not section:
        return "\n".join([f"{name} = {value}", *lines])
    if header not in lines:
        lines.append(header)
    lines.insert(lines.index(header) + 1, f"{name} = {value}")
    return "\n".join(lines)


def _assigns(line: str, name: str) -> bool:
    return line.startswith(f"{name} =")


def _within(text: str, line: str, section: str) -> bool:
    at = text[: text.index(line)].rfind("[")
    return text[at:].startswith(f"[{section}]")


def found(values: dict[str, Any], key: str) -> Any:
    for part in key.split("."):
        values = values[part]
    return values


def test_every_key_has_a_row() -> None:
    assert set(ROWS) == set(all_keys())


@pytest.mark.parametrize("key", ROWS)
def test_a_valid_value_lands_in_the_config(key: str) -> None:
    value = ROWS[key][0]
    text = text_with(key, value)
    if key.startswith("compute.") and key.count(".") == 1:  # type and count belong to the section
        for other, given in (("gpu_type", '"H100"'), ("gpu_count", "2")):
            if not key.endswith(other):
                text = text.replace("[compute]", f"[compute]\n{other} = {given}")
    loaded = load_text(text, "my.toml", environ={}, device="cpu", sets=BESIDE.get(key, []))
    expected = LANDS.get(key, parse_value(value))
    assert found(loaded.values, key) == expected
    given = loaded.origins[key] if key != "tags" else loaded.origins["tags.team"]
    if key not in ("compute.topology.type",):
        assert given.kind == "file" and given.at is not None and given.at.startswith("my.toml:")
    known = all_keys()[key]
    assert key == "type" or known.required or expected != known.default


@pytest.mark.parametrize("key", ROWS)
def test_a_wrong_value_is_refused_with_a_place_what_is_allowed_and_a_fix_that_is_right(key: str) -> None:
    text = text_with(key, ROWS[key][1])
    with pytest.raises(ConfigError) as caught:
        load_text(text, "my.toml", environ={}, device="cpu")
    at = "tags.team" if key == "tags" else key
    [problem] = [item for item in caught.value.problems if item.key == at]
    assert problem.code == "type" and problem.level == "error"
    assert problem.line is not None and text.splitlines()[problem.line - 1].startswith(key.rpartition(".")[2])
    assert problem.value is not None and problem.why and problem.allowed and problem.fix
    if key == "tags":
        return
    mended, sets = apply_fixes(text, [problem])
    try:
        load_text(mended, "my.toml", environ={}, device="cpu", sets=sets)
    except ConfigError as error:
        assert key not in {item.key for item in error.problems if item.code == "type"}, str(error)
