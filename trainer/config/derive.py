"""Defaults that follow from other values. Each is shown with its formula, so nobody has to guess it."""

from collections.abc import Callable
from dataclasses import dataclass
from math import ceil
from typing import Any

from trainer.config.errors import shown
from trainer.config.facts import Facts, Unusable
from trainer.config.gpus import COLOCATE, SPLIT, asked_gpus, is_short, split_of
from trainer.config.machine import cpu_is_fast_at_bf16
from trainer.config.migrate import Origin

Formula = Callable[[Facts], Any]  # a value, (value, note), or None: nothing to derive


@dataclass(frozen=True, slots=True)
class Derivation:
    key: str
    formula: str
    compute: Formula
    overrides_given: bool = False


OLD_PER_TURN = ('given as "per_achievement"', 'given as "complex"')

DERIVATIONS: list[Derivation] = []


def derived(key: str, formula: str, *, overrides_given: bool = False) -> Callable[[Formula], Formula]:
    """Registers how `key` follows when it is not given. The order in this file is the order of derivation."""

    def register(compute: Formula) -> Formula:
        DERIVATIONS.append(Derivation(key, formula, compute, overrides_given))
        return compute

    return register


def derive(facts: Facts) -> dict[str, Origin]:
    """Fills `facts.derived`; returns the origin of each derived value."""
    origins: dict[str, Origin] = {}
    for item in DERIVATIONS:
        if item.key.startswith("evaluation.") and not facts.evaluates:
            continue
        if item.key in facts.entries and not item.overrides_given:
            continue
        try:
            value = item.compute(facts)
        except Unusable:
            if not item.overrides_given:  # what it follows from has an error, so it has no value to read either
                facts.broken.add(item.key)
            continue
        if value is None:
            continue
        note = None
        if isinstance(value, tuple):
            value, note = value
        given = facts.entries.get(item.key)
        if given is not None and given.value == value:
            continue
        facts.derived[item.key] = value
        at = None
        if given is not None:  # what was given stays in sight
            at = given.origin.at
            note = "; ".join(text for text in (f"instead of {shown(given.value)} at {given.place}", note) if text)
        origins[item.key] = Origin("derived", at=at, was=item.formula, note=note)
    return origins


def arithmetic(facts: Facts) -> dict[str, int]:
    """E, U, m, groups, iterations, steps (CONFIG section 3)."""
    episodes = facts["rollout.episodes_per_batch"] * facts["rollout.batches_per_step"]
    minibatches = facts["training.gradient_accumulation_steps"]
    if (most := facts["training.max_accumulated_minibatch"]) is not None:
        minibatches = min(minibatches, most)
    update = facts["training.batch_size"] * minibatches
    steps = ceil(episodes / update)
    iterations = facts["training.num_epochs"] * facts["training.iterations_per_epoch"]
    return {
        "E": episodes,
        "U": update,
        "m": steps,
        "groups": episodes // facts["training.group_size"],
        "iterations": iterations,
        "steps": iterations * steps,
    }


def effective_blend(facts: Facts) -> dict[str, float]:
    """The weights w_env, w_event, w_outcome that this run uses (CONFIG section 6)."""
    if not facts["judge.enabled"] or facts["rollout.task_app_origin_rewards_only"]:
        return {"env": 1.0, "event": 0.0, "outcome": 0.0}
    blend = facts["judge.reward_blend"]
    weights = {name: float(blend.get(name, 0.0)) for name in ("env", "event", "outcome")}
    if facts["rollout.rubric_rewards_only"]:
        weights["env"] = 0.0
    return weights


# --- algorithm, compute and engine


@derived("algorithm.variety", "gspo with step_rewards_strategy per_achievement", overrides_given=True)
def _variety(facts: Facts) -> Any:
    strategy = facts.entries.get("training.rewards.step_rewards_strategy")
    old_name = strategy is not None and strategy.origin.note in OLD_PER_TURN
    if old_name and facts["algorithm.variety"] == "gspo":
        return "gspo_token", "gspo has one advantage for a whole episode"
    return None


@derived("compute.gpu_count", "the sum of the GPU counts of compute.topology, else the GPUs found")
def _gpu_count(facts: Facts) -> Any:
    asked = asked_gpus(facts)
    if asked is None:
        return 1 if facts.machine.gpus is None else facts.gpus
    return facts.gpus if is_short(facts) else asked


@derived("compute.gpu_count", "GPUs found, fewer than asked for", overrides_given=True)
def _gpu_count_found(facts: Facts) -> Any:
    if facts.given("compute.gpu_count") and is_short(facts):
        return facts.gpus, f"{facts.gpus} found, {asked_gpus(facts)} asked for"
    return None


@derived("compute.topology.type", "split from 2 GPUs, colocate with 1, cpu with 0")
def _topology_type(facts: Facts) -> Any:
    if facts.device == "cpu":
        return "cpu"
    return SPLIT if facts["compute.gpu_count"] >= 2 else COLOCATE


@derived("compute.topology.type", "what the GPUs that were found allow", overrides_given=True)
def _topology_type_found(facts: Facts) -> Any:
    if not facts.given("compute.topology.type"):
        return None
    if facts.device == "cpu":
        return "cpu"
    return COLOCATE if is_short(facts) and facts["compute.gpu_count"] < 2 else None


@derived("compute.topology.tensor_parallel", "vllm.tensor_parallel_size, else 1")
def _tensor_parallel(facts: Facts) -> Any:
    return facts["vllm.tensor_parallel_size"] or 1


@derived("vllm.tensor_parallel_size", "compute.topology.tensor_parallel")
def _tensor_parallel_size(facts: Facts) -> Any:
    return facts["compute.topology.tensor_parallel"]


@derived("compute.topology.gpus_for_ref", "1 if reference_placement is dedicated, else 0")
def _gpus_for_ref(facts: Facts) -> Any:
    return 1 if facts["compute.topology.reference_placement"] == "dedicated" else 0


@derived("compute.topology.gpus_for_ref", "the GPUs that were found, split again", overrides_given=True)
def _gpus_for_ref_again(facts: Facts) -> Any:
    return _gpus_for_ref(facts) if facts.given("compute.topology.gpus_for_ref") and is_short(facts) else None


@derived(
    "compute.topology.gpus_for_vllm",
    "gpu_count - ref - max(1, (gpu_count - ref) // 2), whole replicas, at least one",
)
def _gpus_for_vllm(facts: Facts) -> Any:
    return _split(facts)[0]


@derived("compute.topology.gpus_for_vllm", "the GPUs that were found, split again", overrides_given=True)
def _gpus_for_vllm_again(facts: Facts) -> Any:
    return _split(facts)[0] if facts.given("compute.topology.gpus_for_vllm") and is_short(facts) else None


@derived("compute.topology.gpus_for_training", "gpu_count - ref - vllm")
def _gpus_for_training(facts: Facts) -> Any:
    return _split(facts)[1]


@derived("compute.topology.gpus_for_training", "the GPUs that were found, split again", overrides_given=True)
def _gpus_for_training_again(facts: Facts) -> Any:
    return _split(facts)[1] if facts.given("compute.topology.gpus_for_training") and is_short(facts) else None


def _split(facts: Facts) -> tuple[int | None, int | None]:
    """(engine, training) GPUs; of a machine that has too few for any split neither: a launch says so."""
    if facts.device != "cuda" or facts["compute.topology.type"] != SPLIT:
        return None, None
    engine, training = split_of(facts)
    if is_short(facts) and min(engine, training) < 1:
        return None, None
    return max(0, engine), max(0, training)


@derived("vllm.gpu_memory_utilization", "0.45 when colocated, else 0.9")
def _gpu_memory_utilization(facts: Facts) -> Any:
    return 0.45 if facts["compute.topology.type"] == "single_node_colocate" else 0.9


@derived("vllm.max_num_seqs", "vllm.max_parallel_generations")
def _max_num_seqs(facts: Facts) -> Any:
    return facts["vllm.max_parallel_generations"]


@derived("vllm.max_model_len", "min(8192, the model's limit)")
def _max_model_len(facts: Facts) -> Any:
    return None if facts.model_limit is None else min(8192, facts.model_limit)


# --- rollouts and evaluation


@derived("rollout.max_concurrent_rollouts", "min(rollout.episodes_per_batch, 64)")
def _max_concurrent_rollouts(facts: Facts) -> Any:
    return min(facts["rollout.episodes_per_batch"], 64)


@derived("evaluation.instances", "data.evaluation_episodes, else len(evaluation.seeds) x rollouts_per_seed")
def _instances(facts: Facts) -> Any:
    if facts["data.evaluation_episodes"] is not None:
        return facts["data.evaluation_episodes"]
    per_seed = facts["evaluation.rollouts_per_seed"]
    return None if per_seed is None else len(facts["evaluation.seeds"]) * per_seed


@derived("evaluation.instances", "0 is len(evaluation.seeds) x rollouts_per_seed", overrides_given=True)
def _all_seeds(facts: Facts) -> Any:
    if facts["evaluation.instances"] != 0:
        return None
    return len(facts["evaluation.seeds"]) * (facts["evaluation.rollouts_per_seed"] or 1)


@derived("evaluation.max_concurrent_rollouts", "rollout.max_concurrent_rollouts")
def _evaluation_concurrency(facts: Facts) -> Any:
    return facts["rollout.max_concurrent_rollouts"]


@derived("evaluation.thinking_mode", "rollout.thinking_mode")
def _evaluation_thinking(facts: Facts) -> Any:
    return facts["rollout.thinking_mode"]


# --- training


@derived("training.max_turns", "rollout.max_turns")
def _max_turns(facts: Facts) -> Any:
    return facts["rollout.max_turns"]


@derived("training.max_lag", "max(4, training.weight_sync_interval)")
def _max_lag(facts: Facts) -> Any:
    return max(4, facts["training.weight_sync_interval"])


def clip_defaults(variety: str, anchor: str) -> tuple[float, float]:
    """(low, high) clip distances (CONFIG section 5)."""
    if variety in ("gspo", "gspo_token"):
        return (0.02, 0.02) if anchor == "behavior" else (3e-4, 4e-4)
    return 0.2, 0.2


@derived("training.clip_eps_low", "by algorithm.variety and training.anchor")
def _clip_eps_low(facts: Facts) -> Any:
    return clip_defaults(facts["algorithm.variety"], facts["training.anchor"])[0]


@derived("training.clip_eps_high", "by algorithm.variety and training.anchor")
def _clip_eps_high(facts: Facts) -> Any:
    return clip_defaults(facts["algorithm.variety"], facts["training.anchor"])[1]


@derived("training.advantage_std", "false for dr_grpo, else true")
def _advantage_std(facts: Facts) -> Any:
    return facts["algorithm.variety"] != "dr_grpo"


@derived("training.dtype", "bfloat16 where the hardware is fast at it, else float32")
def _dtype(facts: Facts) -> Any:
    if facts.device == "cuda":
        return "bfloat16", "CUDA"
    if cpu_is_fast_at_bf16():
        return "bfloat16", "this CPU computes bfloat16 (AMX or AVX512-BF16)"
    return "float32", "this CPU has neither AMX nor AVX512-BF16"


@derived("training.gradient_checkpointing", "true for full on CUDA, else false")
def _gradient_checkpointing(facts: Facts) -> Any:
    return facts.device == "cuda" and facts["policy.trainer_mode"] == "full"


@derived("training.max_seq_len", "vllm.max_model_len")
def _max_seq_len(facts: Facts) -> Any:
    return facts["vllm.max_model_len"]


@derived("training.weight_sync.enable", "false: training.weight_sync.targets is empty", overrides_given=True)
def _sync_enable(facts: Facts) -> Any:
    return None if facts["training.weight_sync.targets"] else False


@derived("training.weight_sync.mode", "by policy.trainer_mode and device")
def _sync_mode(facts: Facts) -> Any:
    mode = facts["policy.trainer_mode"]
    if mode == "lora" and facts.device == "cpu":
        return (
            "full",
            "decoding through an adapter costs more than half the speed on a CPU: a merged copy is sent",
        )
    return "full" if mode == "full" else "lora"


@derived("training.weight_sync.mode", "full with the local engine, for lora", overrides_given=True)
def _sync_mode_of_local_engine(facts: Facts) -> Any:
    local = facts.runs_local_engine and facts["inference.url"] is None
    if local and (facts["policy.trainer_mode"], facts["training.weight_sync.mode"]) == ("lora", "lora"):
        return "full", "the local engine decodes with merged weights: through an adapter it would lose half its speed"
    return None


@derived(
    "training.rewards.step_rewards_beta",
    "0 with decision_stepwise is read as 1.0",
    overrides_given=True,
)
def _beta(facts: Facts) -> Any:
    given = facts.given("training.rewards.step_rewards_beta")
    stepwise = facts["training.rewards.step_rewards_mode"] == "decision_stepwise"
    if given and stepwise and facts["training.rewards.step_rewards_beta"] == 0:
        return 1.0, "0 meant no early bonus; step_rewards_mode = off switches step rewards off"
    return None


# --- judge and smoke


@derived("judge.reward_blend", "env 0.5 and outcome 0.5; event 0.5 with outcome judging off")
def _reward_blend(facts: Facts) -> Any:
    return {"env": 0.5, "outcome" if facts["judge.options.outcome"] else "event": 0.5}


# The variable of each provider's key, and that of a server of one's own.
OWN_JUDGE_KEY = "JUDGE_API_KEY"
JUDGE_KEYS = {
    "openai": "OPENAI_API_KEY",
    "anthropic": "ANTHROPIC_API_KEY",
    "groq": "GROQ_API_KEY",
    "gemini": "GEMINI_API_KEY",
}


@derived("judge.options.api_key_env", "by provider; JUDGE_API_KEY with base_url")
def _api_key_env(facts: Facts) -> Any:
    if facts["judge.options.base_url"] is not None:
        return OWN_JUDGE_KEY
    provider = facts["judge.options.provider"]
    if provider == "gemini" and {"GEMINI_API_KEY", "GOOGLE_API_KEY"} & facts.variables == {"GOOGLE_API_KEY"}:
        return "GOOGLE_API_KEY"
    return JUDGE_KEYS.get(provider)


@derived("smoke.task_url", "services.task_url")
def _smoke_task_url(facts: Facts) -> Any:
    return facts["services.task_url"]


@derived("smoke.env_name", "rollout.env_name")
def _smoke_env_name(facts: Facts) -> Any:
    return facts["rollout.env_name"]


@derived("smoke.policy_name", "rollout.policy_name")
def _smoke_policy_name(facts: Facts) -> Any:
    return facts["rollout.policy_name"]
