"""Old and odd spellings, as data (CONFIG section 4).

A `Move` says under which new key the value of an old key lives on. Values that changed their spelling while
the key stayed are in `VALUE_SPELLINGS`; old keys that have no effect here are in `NO_EFFECT`.
"""

import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, Literal

from trainer.config.keys import all_keys

Conflict = Literal["error", "new_wins", "unset_only"]
Given = Mapping[str, Any]  # what all sources give, by key path
New = dict[str, Any]  # new keys and their values


@dataclass(frozen=True, slots=True)
class Move:
    """One old key.

    Attributes:
        old: its path.
        new: the new key; of several, the one that messages name.
        convert: (value, everything given) -> new keys and values; an empty table: noted, without effect.
        conflict: if old and new are given and differ. "unset_only": the old key only fills a gap.
        note: said with the warning.
        fills: new keys that it sets only where nothing else does.
        wants: the type of its value, where that is not the new key's.
    """

    old: str
    new: str
    convert: Callable[[Any, Given], New] | None = None
    conflict: Conflict = "error"
    note: str = ""
    fills: tuple[str, ...] = ()
    wants: type | None = None

    def takes(self, value: Any) -> bool:
        return self.wants is None or isinstance(value, self.wants)

    def values(self, value: Any, given: Given) -> New:
        return {self.new: value} if self.convert is None else self.convert(value, given)


def _same_name(old_section: str, new_section: str, *names: str) -> list[Move]:
    return [Move(f"{old_section}.{name}", f"{new_section}.{name}") for name in names]


def _renamed(pairs: Mapping[str, str]) -> list[Move]:
    return [Move(old, new) for old, new in pairs.items()]


def gpu_type(value: Any) -> tuple[Any, int | None]:
    """`"H100:4"` -> ("H100", 4)."""
    if isinstance(value, str):
        name, colon, count = value.partition(":")
        if colon and count.isdecimal():
            return name, int(count)
    return value, None


def _topology_gpu_type(value: Any, given: Given) -> New:
    name, count = gpu_type(value)
    return {"compute.gpu_type": name} | ({} if count is None else {"compute.gpu_count": count})


def _half(value: Any, given: Given) -> New:
    whole = isinstance(value, int) and not isinstance(value, bool)
    return {"rollout.max_turns": max(1, value // 2) if whole and value > 0 else value}


def _both_clips(value: Any, given: Given) -> New:
    return {"training.clip_eps_low": value, "training.clip_eps_high": value}


def _kl_penalty(value: Any, given: Given) -> New:
    placements = (
        "compute.topology.reference_placement",
        "topology.reference_placement",
        "reference.placement",
    )
    placed = any(given.get(key, "none") != "none" for key in placements)
    return {"training.kl_coef": value} if placed else {}


def _checkpoints_on(value: Any, given: Given) -> New:
    if value is True:
        return {}
    return {"checkpoint.every_n_iters": 0 if value is False else value}


def _interval(value: Any, given: Given) -> New:
    return {} if given.get("checkpoint.enabled") is False else {"checkpoint.every_n_iters": value}


def _judge_enabled(value: Any, given: Given) -> New:
    """The old section's documented default blend comes with it."""
    return {"judge.enabled": value} | ({"judge.reward_blend": {"env": 1.0}} if value is True else {})


def _rubric_weights(value: Any, given: Given) -> New:
    return {"judge.reward_blend": {"env": 1.0} | value if isinstance(value, dict) else value}


def _criteria(kind: str) -> Callable[[Any, Given], New]:
    """Criteria turn their kind of judging on."""

    def convert(value: Any, given: Given) -> New:
        criteria = [_with_id(entry) for entry in value] if isinstance(value, list) else value
        new: New = {"judge.options.rubric_overrides": {kind: {"criteria": criteria}}}
        return new | ({f"judge.options.{kind}": True} if value else {})

    return convert


def _with_id(criterion: Any) -> Any:
    if not isinstance(criterion, dict):
        return criterion
    return {("id" if name == "key" else name): item for name, item in criterion.items()}


MOVES: tuple[Move, ...] = (
    *_same_name(
        "topology",
        "compute.topology",
        "type",
        "gpus_for_vllm",
        "gpus_for_training",
        "gpus_for_ref",
        "tensor_parallel",
        "reference_placement",
    ),
    Move("topology.gpu_type", "compute.gpu_type", _topology_gpu_type),
    Move("reference.placement", "compute.topology.reference_placement"),
    Move("model.base", "policy.model_name"),
    *_same_name("model", "policy", "source", "trainer_mode", "label"),
    *_renamed({"model.name": "policy.model_name", "model.dtype": "training.dtype", "model.seed": "training.seed"}),
    *_renamed({"policy.model": "policy.model_name", "policy.config": "rollout.policy_config"}),
    *_same_name("lora", "training.lora", "r", "alpha", "dropout", "target_modules"),
    *_same_name(
        "training",
        "training.rewards",
        "step_rewards_enabled",
        "step_rewards_mode",
        "step_rewards_indicator_lambda",
        "step_rewards_beta",
        "step_rewards_strategy",
        "event_rewards_kind",
    ),
    *_renamed(
        {
            "step_rewards.enabled": "training.rewards.step_rewards_enabled",
            "step_rewards.mode": "training.rewards.step_rewards_mode",
            "step_rewards.step_beta": "training.rewards.step_rewards_beta",
            "step_rewards.indicator_lambda": "training.rewards.step_rewards_indicator_lambda",
            "training.weight_sync.weight_sync_interval": "training.weight_sync_interval",
            "training.max_completion_tokens": "policy.max_tokens",
            "rollout.max_tokens": "policy.max_tokens",
            "training.ops": "rollout.ops",
            "rollout.max_steps_per_episode": "rollout.max_turns",
            "rollout.sampling_temperature": "policy.temperature",
            "rollout.sampling_top_p": "policy.top_p",
            "hyperparams.epsilon_low": "training.clip_eps_low",
            "hyperparams.epsilon_high": "training.clip_eps_high",
            "hyperparams.advantage_normalization": "training.advantage_std",
            "checkpoint.directory": "checkpoint.dir",
            "checkpoint.keep_last_n": "checkpoint.keep_last",
            "services.verifier_url": "services.judge_url",
            "judge.options.timeout_s": "judge.timeout_s",
            "rubric.reward_blend": "judge.reward_blend",
            "rubric.model": "judge.options.model",
            "rubric.api_base": "judge.options.base_url",
            "rubric.api_key_env": "judge.options.api_key_env",
            "rubric.event": "judge.options.event",
            "rubric.outcome": "judge.options.outcome",
            "judge.rubric.reward_blend": "judge.reward_blend",
            "task_app.url": "services.task_url",
            "logging.log_interval": "training.log_interval",
            "logging.checkpoint_interval": "checkpoint.every_n_iters",
            "results_folder": "logging.runs_dir",
        }
    ),
    Move(
        "rollout.ops_per_rollout",
        "rollout.max_turns",
        _half,
        "unset_only",
        "half of it: one op of two a turn",
    ),
    Move("training.async_semaphore_max", "rollout.max_concurrent_rollouts", None, "unset_only"),
    Move("hyperparams.clip_epsilon", "training.clip_eps_low", _both_clips, "unset_only", "both sides"),
    Move("hyperparams.kl_penalty", "training.kl_coef", _kl_penalty, note="only with a reference placement"),
    Move(
        "checkpoint.enabled",
        "checkpoint.every_n_iters",
        _checkpoints_on,
        note="true changes nothing, false is 0: at the end only",
        wants=bool,
    ),
    Move("checkpoint.interval", "checkpoint.every_n_iters", _interval, note="not with checkpoint.enabled = false"),
    Move("rubric.enabled", "judge.enabled", _judge_enabled, fills=("judge.reward_blend",)),
    Move("judge.rubric.enabled", "judge.enabled", _judge_enabled, fills=("judge.reward_blend",)),
    Move("rubric.weights", "judge.reward_blend", _rubric_weights, note="a key left out: env 1.0, others 0"),
    Move("rubric.event.rubric_id", "judge.options.rubric_id", None, "new_wins"),
    Move("rubric.outcome.rubric_id", "judge.options.rubric_id", None, "new_wins"),
    Move(
        "rubric.event.criteria",
        "judge.options.rubric_overrides",
        _criteria("event"),
        "new_wins",
        fills=("judge.options.event",),
    ),
    Move(
        "rubric.outcome.criteria",
        "judge.options.rubric_overrides",
        _criteria("outcome"),
        "new_wins",
        fills=("judge.options.outcome",),
    ),
    *_same_name("trainer", "training", "batch_size", "group_size"),
    *_same_name(
        "hyperparameters",
        "training",
        "batch_size",
        "learning_rate",
        "kl_coef",
        "gamma",
        "gradient_accumulation_steps",
    ),
    Move("hyperparameters.n_samples", "training.group_size"),
    Move("hyperparameters.max_seq_length", "training.max_seq_len"),
)

SECTION_MOVES: Mapping[str, str] = {"verifier": "judge"}  # a whole section under a later name

_REFERENCE = "the reference model is a learner rank or in-process, not an HTTP server"
_VISION = "the learner is text-only; an episode with images in its prompt is excluded (unsupported_modality)"
_TRANSPORT = "NCCL chooses the transport; set its environment variables instead"
_APP_REWARDS = "the task app owns its rewards; put it under rollout.env_config if the app reads it"
_CHECKPOINT = "the latest resumable checkpoint always has both, older ones never need the optimizer's"

NO_EFFECT: Mapping[str, str] = {
    "reference.port": _REFERENCE,
    "reference.tp": _REFERENCE,
    "reference.health_max_wait_s": _REFERENCE,
    "reference.health_interval_ms": _REFERENCE,
    "reference.gpu_index": _REFERENCE,
    "reference.model_id": "the reference is always the run's start weights",
    "topology.use_rdma": _TRANSPORT,
    "rdma.*": _TRANSPORT,
    "model.supports_vision": _VISION,
    "training.supports_vision": _VISION,
    "training.max_images_per_message": _VISION,
    "training.reward_positive": _APP_REWARDS,
    "training.reward_negative_no_answer": _APP_REWARDS,
    "training.reward_negative_no_tool": _APP_REWARDS,
    "training.update_reference_interval": "the reference is fixed for the run",
    "hyperparams.delta": "there is no second clip bound",
    "hyperparams.group_normalization": "group normalisation is always on",
    "hyperparams.completion_only": "only sampled tokens carry loss, always",
    "hyperparams.beta": "only hyperparams.kl_penalty is read",
    "hyperparams.num_inner_steps": "each sequence is used once",
    "hyperparameters.n_rollouts": "the amount of training follows from epochs and iterations",
    "trainer.allow_ref_fallback": "no fallback exists",
    "checkpoint.save_optimizer": _CHECKPOINT,
    "checkpoint.save_scheduler": _CHECKPOINT,
    "policy.provider": "rollouts always go through the run's own gateway",
    "display.*": "output is chosen by CLI options",
}

# key -> old value -> the keys that say it now
VALUE_SPELLINGS: Mapping[str, Mapping[str, New]] = {
    "algorithm.method": {"gspo": {"algorithm.method": "policy_gradient", "algorithm.variety": "gspo"}},
    "compute.topology.reference_placement": {"stacked": {"compute.topology.reference_placement": "shared"}},
    "training.weight_sync.mode": {"direct": {"training.weight_sync.direct": True}},
    "training.rewards.step_rewards_strategy": {
        "consistent": {"training.rewards.step_rewards_strategy": "uniform"},
        "simple": {"training.rewards.step_rewards_strategy": "uniform"},
        "per_achievement": {"training.rewards.step_rewards_strategy": "per_turn"},
        "complex": {"training.rewards.step_rewards_strategy": "per_turn"},
    },
    "judge.type": {
        "openai": {"judge.type": "llm", "judge.options.provider": "openai"},
        "groq": {"judge.type": "llm", "judge.options.provider": "groq"},
        "gemini": {"judge.type": "llm", "judge.options.provider": "gemini"},
        "anthropic": {"judge.type": "llm", "judge.options.provider": "anthropic"},
        "synth": {"judge.type": "llm"},
        "none": {"judge.type": "llm", "judge.enabled": False},
    },
}
QUIET = ("compute.gpu_type",)  # has two spellings and neither is old
FILLS = ("judge.options.provider",)  # set by a value's spelling only where nothing else does


def respelled(key: str, value: Any) -> New | None:
    """The keys that say `key = value` now; None: nothing about it is old."""
    if key == "compute.gpu_type":
        name, count = gpu_type(value)
        return None if count is None else {key: name, "compute.gpu_count": count}
    if key == "training.weight_sync.targets" and value in (["policy"], ["vllm", "policy"], ["policy", "vllm"]):
        return {key: ["vllm"]}
    return VALUE_SPELLINGS.get(key, {}).get(value) if isinstance(value, str) else None


_SCHEME = re.compile(r"https?://", re.IGNORECASE)


def _tidy_address(text: str) -> str:
    scheme = _SCHEME.match(text)
    if scheme is None:
        return text
    return scheme[0].lower() + text[scheme.end() :].rstrip("/")


def tidy(key: str, value: Any) -> Any:
    """Case, outer spaces and trailing slashes that mean nothing."""
    if isinstance(value, str) and key in ("algorithm.type", "algorithm.method", "algorithm.variety"):
        return value.strip().lower()
    if isinstance(value, str) and key.endswith(("_url", ".url")) and key in all_keys():
        return _tidy_address(value.strip())
    return value
