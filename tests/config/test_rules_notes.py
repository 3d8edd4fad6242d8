"""Warnings and notes over several keys: each by the config that draws it, with level and words."""

import pytest

from trainer.config import Problem
from trainer.config.machine import Machine

EVALUATION = ["evaluation.instances=2", "evaluation.every_n_iters=1", "evaluation.seeds=[0, 1]"]
JUDGE = ["judge.enabled=true"]
SERVICE = [*JUDGE, "services.judge_url=https://judge.example"]
RULE = [*JUDGE, "judge.type=rule"]
STEPS = ["training.rewards.step_rewards_enabled=true"]
STEPWISE = [*STEPS, "training.rewards.step_rewards_mode=decision_stepwise"]
TWO_GPUS = ["compute.gpu_type=H100", "compute.gpu_count=2"]

# name: (sets, key, level, a part of the reason)
SAID: dict[str, tuple[list[str], str, str, str]] = {
    # --- algorithm, compute, engine
    "method gspo": (["algorithm.method=gspo"], "algorithm.method", "warning", 'algorithm.variety = "gspo"'),
    "no GPU": (TWO_GPUS, "compute.gpu_count", "warning", "no GPU that can be used (asked for 2)"),
    "counts on a CPU": (
        [*TWO_GPUS, "compute.topology.gpus_for_vllm=1"],
        "compute.gpu_count",
        "warning",
        "gpus_for_vllm of compute.topology is ignored",
    ),
    "zero GPUs": (["compute.gpu_count=0"], "compute.gpu_count", "warning", "the run takes place on the CPU"),
    "options of the local launcher": (
        ["compute.launcher_options={ partition = 'x' }"],
        "compute.launcher_options",
        "note",
        "the local launcher requests nothing",
    ),
    "options of vLLM": (
        ["vllm.enforce_eager=true", "vllm.swap_space=4"],
        "vllm",
        "note",
        "does not read: enforce_eager, swap_space",
    ),
    "a like engine option": (["vllm.max_model_length=512"], "vllm.max_model_length", "warning", "`vllm.max_model_len`"),
    "two batch limits": (
        ["vllm.max_num_seqs=4", "vllm.max_parallel_generations=8"],
        "vllm.max_parallel_generations",
        "note",
        "vllm.max_num_seqs = 4 is given",
    ),
    "answers longer than the context": (
        ["vllm.max_model_len=1024", "rollout.max_turns=4", "policy.max_tokens=300"],
        "vllm.max_model_len",
        "note",
        "max_turns 4 x max_tokens 300 = 1200 tokens of answers may not fit into max_model_len 1024",
    ),
    # --- policy and rollout
    "an adapter for the local engine": (
        ["training.weight_sync.mode=lora"],
        "training.weight_sync.mode",
        "note",
        "full instead: the local engine decodes with merged weights",
    ),
    "top_p": (["policy.top_p=0.95"], "policy.top_p", "warning", "training always samples the plain distribution"),
    "top_k": (["policy.top_k=20"], "policy.top_k", "warning", "no effect at all, because evaluation is off"),
    "penalty": (
        [*EVALUATION, "policy.repetition_penalty=1.1"],
        "policy.repetition_penalty",
        "warning",
        "greedy (evaluation.temperature 0)",
    ),
    "inference_url": (
        ["policy.inference_url=http://x:1"],
        "policy.inference_url",
        "note",
        "weights cannot be synced to a server that the run does not own",
    ),
    "owned request fields": (
        ["rollout.policy_config={ inference_url = 'http://x' }"],
        "rollout.policy_config",
        "note",
        "no effect of inference_url in it",
    ),
    "two temperatures": (
        ["rollout.policy_config={ temperature = 0.2 }"],
        "rollout.policy_config",
        "note",
        "may sample with it: policy.temperature = 0.7 has no effect then",
    ),
    "refill": (["rollout.max_refill_groups=9"], "rollout.max_refill_groups", "note", "an iteration has 8 groups"),
    "judge not called": (
        [*JUDGE, "rollout.task_app_origin_rewards_only=true"],
        "judge.enabled",
        "note",
        "the judge is not called",
    ),
    # --- data and evaluation
    "episodes_per_iteration": (
        ["data.episodes_per_iteration=40"],
        "data.episodes_per_iteration",
        "note",
        "episodes_per_batch x batches_per_step = 32",
    ),
    "split twice": (
        ["data.split=train", "rollout.env_config={ split = 'dev' }"],
        "data.split",
        "note",
        "rollout.env_config has a split",
    ),
    "evaluation data without evaluation": (
        ["data.evaluation_split=t"],
        "data.evaluation_split",
        "note",
        "no [evaluation]",
    ),
    "evaluation_episodes twice": (
        [*EVALUATION, "data.evaluation_episodes=4"],
        "data.evaluation_episodes",
        "note",
        "evaluation.instances is given",
    ),
    "rollouts_per_seed beside instances": (
        [*EVALUATION, "evaluation.rollouts_per_seed=3"],
        "evaluation.rollouts_per_seed",
        "note",
        "evaluation.instances is given and not 0",
    ),
    "duplicate seeds": ([*EVALUATION, "evaluation.seeds=[1, 1]"], "evaluation.seeds", "warning", "more than once: 1"),
    "greedy repeats": (
        [*EVALUATION, "evaluation.instances=50"],
        "evaluation.instances",
        "note",
        "50 greedy episodes over 2 seeds = 25 of each seed",
    ),
    "evaluation rarer than the run is long": (
        [*EVALUATION, "evaluation.every_n_iters=4"],
        "evaluation.every_n_iters",
        "note",
        "the run has 3 iterations in total",
    ),
    "evaluations between the checkpoints": (
        [*EVALUATION, "evaluation.every_n_iters=1", "checkpoint.every_n_iters=2"],
        "evaluation.every_n_iters",
        "note",
        "checkpoints are made after every 2 iterations and at the end",
    ),
    "evaluation cap above the cap": (
        [*EVALUATION, "evaluation.max_concurrent_rollouts=64"],
        "evaluation.max_concurrent_rollouts",
        "note",
        "rollout.max_concurrent_rollouts = 32 counts evaluation episodes, too",
    ),
    # --- training
    "accumulation lowered": (
        ["training.gradient_accumulation_steps=4", "training.max_accumulated_minibatch=2", "training.batch_size=4"],
        "training.max_accumulated_minibatch",
        "note",
        "from 4 to 2: 8 sequences",
    ),
    "batch larger than the iteration": (["training.batch_size=64"], "training.batch_size", "note", "has 32 episodes"),
    "rate for full": (
        ["policy.trainer_mode=full", "training.learning_rate=2e-5"],
        "training.learning_rate",
        "note",
        "high for full fine-tuning",
    ),
    "rate for nobody": (
        ["training.learning_rate=5000.0"],
        "training.learning_rate",
        "warning",
        "the first one ruins the policy",
    ),
    "rate for lora": (["training.learning_rate=1e-7"], "training.learning_rate", "note", "low for an adapter"),
    "lag without sync": (
        ["training.weight_sync.enable=false", "training.max_lag=2"],
        "training.max_lag",
        "note",
        "ignored: training.weight_sync.enable is false",
    ),
    "paper clip": (
        ["training.clip_eps_low=3e-4"],
        "training.clip_eps_low",
        "warning",
        "0.21 of 5-token and 0.055 of 20-token",
    ),
    "ppo's keys": (["training.gamma=0.9"], "training.gamma", "note", "algorithm.method ppo only"),
    "ppo's lambda": (["training.gae_lambda=0.9"], "training.gae_lambda", "note", "algorithm.method ppo only"),
    "ppo's critic": (["training.value_coef=0.1"], "training.value_coef", "note", "algorithm.method ppo only"),
    "sync off": (
        ["training.weight_sync.enable=false"],
        "training.weight_sync.enable",
        "warning",
        "stays on the initial weights",
    ),
    "no sync targets": (
        ["training.weight_sync.targets=[]"],
        "training.weight_sync.targets",
        "warning",
        "initial weights",
    ),
    "sync keys without sync": (
        ["training.weight_sync.enable=false", "training.weight_sync_interval=2"],
        "training.weight_sync_interval",
        "note",
        "weights are never synced",
    ),
    "no canary": (
        ["training.weight_sync.verify_every_k=0"],
        "training.weight_sync.verify_every_k",
        "warning",
        "no canary compares engine and learner",
    ),
    "adapter of full": (
        ["policy.trainer_mode=full", "training.lora.r=8"],
        "training.lora.r",
        "note",
        "there is no adapter",
    ),
    "dropout": (["training.lora.dropout=0.1"], "training.lora.dropout", "warning", "not applied"),
    "deterministic": (
        ["training.deterministic=true", "training.dtype=bfloat16"],
        "training.deterministic",
        "warning",
        "only with training.dtype float32, a built-in task app, training.max_lag 0;",
    ),
    # --- rewards
    "beta 0 by name": (
        [*STEPS, "training.rewards.step_rewards_mode=decision_stepwise", "training.rewards.step_rewards_beta=0.0"],
        "training.rewards.step_rewards_beta",
        "note",
        "read as 1.0",
    ),
    "beta 0": (
        [*STEPS, "training.rewards.step_rewards_beta=0.0"],
        "training.rewards.step_rewards_beta",
        "warning",
        "multiplied by 0",
    ),
    "step keys without steps": (
        ["training.rewards.step_rewards_mode=env_sparse"],
        "training.rewards.step_rewards_mode",
        "note",
        "training.rewards.step_rewards_enabled is false",
    ),
    "weights without steps": (
        ["training.step_rewards_weights={ a = 2.0 }"],
        "training.step_rewards_weights",
        "note",
        "training.rewards.step_rewards_enabled is false",
    ),
    "lambda of another mode": (
        [*STEPS, "training.rewards.step_rewards_mode=env_sparse", "training.rewards.step_rewards_indicator_lambda=0.5"],
        "training.rewards.step_rewards_indicator_lambda",
        "note",
        "indicator and decision_stepwise only",
    ),
    "event kind of another mode": (
        [*STEPS, "training.rewards.event_rewards_kind=unique"],
        "training.rewards.event_rewards_kind",
        "note",
        "decision_stepwise only",
    ),
    "achievements with events that are not counted": (
        [*STEPWISE, "training.rewards.event_rewards_kind=continuous", "training.step_rewards_k_limits={ a = 2 }"],
        "training.step_rewards_k_limits",
        "note",
        "binary and unique only",
    ),
    "achievements in place of the event kind": (
        [*STEPWISE, "training.rewards.event_rewards_kind=unique", "training.step_rewards_weights={ a = 2.0 }"],
        "training.rewards.event_rewards_kind",
        "note",
        "instead",
    ),
    "step rewards that have no weight": (
        [*STEPS, *JUDGE, "judge.options.event=true", "rollout.rubric_rewards_only=true"],
        "training.rewards.step_rewards_enabled",
        "note",
        "vanish",
    ),
    "steps on and off": (
        [*STEPS, "training.rewards.step_rewards_mode=off"],
        "training.rewards.step_rewards_enabled",
        "note",
        "step_rewards_mode is off",
    ),
    "env_sparse": (
        [*STEPS, "training.rewards.step_rewards_mode=env_sparse"],
        "training.rewards.step_rewards_mode",
        "note",
        "each counts twice",
    ),
    # --- judge
    "judge_url while off": (["services.judge_url=http://x"], "services.judge_url", "note", "judge.enabled is false"),
    "options while off": (["judge.options.event=true"], "judge.options", "warning", "configured but off"),
    "blend while off": (["judge.reward_blend={ env = 1.0 }"], "judge.reward_blend", "note", "judge.enabled is false"),
    "metadata with a provider": (
        [*JUDGE, "judge.options.metadata={ a = 1 }"],
        "judge.options.metadata",
        "note",
        "sent to a judge service",
    ),
    "own server with a service": (
        [*SERVICE, "rubric.api_base=http://localhost:1", "judge.options.model=m"],
        "judge.options.base_url",
        "note",
        "that service scores",
    ),
    "model of a rule": ([*RULE, "judge.options.model=m"], "judge.options.model", "note", "no model is called"),
    "sum of no turns": (
        [*JUDGE, "judge.event_aggregation=sum"],
        "judge.event_aggregation",
        "note",
        "no turns are judged",
    ),
    # --- smoke and inference
    "hrana port": (["smoke.sqld_hrana_port=1"], "smoke.sqld_hrana_port", "note", "SQLite needs no port"),
    "http port": (["smoke.sqld_http_port=1"], "smoke.sqld_http_port", "note", "SQLite needs no port"),
    "tunnel beside an address": (
        ["inference.tunnel=quick", "inference.public_url=https://x"],
        "inference.tunnel",
        "note",
        "inference.public_url = https://x is used",
    ),
}


def of_key(loaded, key: str) -> list[Problem]:
    return [item for item in loaded.warnings if item.key == key and item.code not in ("migrated", "beaten")]


@pytest.mark.parametrize("name", SAID)
def test_it_is_said_once_with_its_level(small, name: str) -> None:
    sets, key, level, words = SAID[name]
    [problem] = of_key(small(*sets), key)
    assert problem.level == level and words in problem.why, str(problem)


def test_a_plain_config_draws_nothing(small) -> None:
    assert small().warnings == []
    assert small(*EVALUATION).warnings == []


def test_defaults_written_out_are_not_worth_a_word(small) -> None:
    sets = ["training.gamma=1.0", "training.rewards.step_rewards_mode=indicator", "smoke.sqld_http_port=8081"]
    sets += ["policy.top_p=1.0", "policy.top_k=-1", "vllm.enforce_eager=false", "judge.type=llm"]
    assert small(*sets).warnings == []


def test_deterministic_keeps_its_word_where_all_conditions_hold(small) -> None:
    sets = ["training.deterministic=true", "training.dtype=float32", "services.task_url=builtin:facts"]
    [problem] = of_key(small(*sets), "training.deterministic")
    assert problem.fix == "--set training.max_lag=0"
    sets.append("training.max_lag=0")
    assert of_key(small(*sets), "training.deterministic") == []
    [problem] = of_key(small(*sets, *JUDGE, device="cuda"), "training.deterministic")
    assert "a CPU, the local engine, no LLM judge;" in problem.why


def test_vllm_reads_its_options(small) -> None:
    assert of_key(small("vllm.enforce_eager=true", device="cuda"), "vllm") == []


def test_reference_gpus_without_a_penalty_stay_idle(small) -> None:
    sets = [*TWO_GPUS, "compute.gpu_count=3", "compute.topology.reference_placement=dedicated"]
    [problem] = of_key(small(*sets, device="cuda"), "compute.topology.reference_placement")
    assert (problem.level, problem.code) == ("warning", "idle_gpus")


@pytest.mark.parametrize(
    ("given", "name", "warns"),
    [
        ("H100", "NVIDIA H100 80GB HBM3", False),
        ("h100-sxm", "NVIDIA H100 80GB HBM3", False),
        ("A100-80GB", "NVIDIA A100-SXM4-80GB", False),
        ("RTX 4090", "NVIDIA GeForce RTX 4090", False),
        ("A100", "NVIDIA H100 80GB HBM3", True),
    ],
)
def test_gpu_type_is_compared_with_the_device(small, given: str, name: str, warns: bool) -> None:
    loaded = small(f"compute.gpu_type={given}", device=None, machine=Machine(1, name))
    assert [item.level for item in of_key(loaded, "compute.gpu_type")] == ["warning"] * warns


@pytest.mark.parametrize("text", ["compute.topology.tensor_parallel=2", "vllm.tensor_parallel_size=2"])
@pytest.mark.parametrize(("gpus", "words"), [(0, 1), (4, 0)])
def test_replicas_of_several_gpus_draw_one_word_where_there_are_none(small, text: str, gpus: int, words: int) -> None:
    assert len(small(text, device=None, machine=Machine(gpus)).warnings) == words


def test_a_lag_without_any_sync_has_one_note(small) -> None:
    found = of_key(small("training.max_lag=2", "training.weight_sync.enable=false"), "training.max_lag")
    assert [item.code for item in found] == ["max_lag"]
