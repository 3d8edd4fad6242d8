"""Which way to turn a key that a rule names, where the rule knows. Pure data."""

from __future__ import annotations

from typing import Literal

Way = Literal["raise", "lower"]

# By rule, then by key. A key that may have to go either way, or is no number, has no entry.
WAYS: dict[str, dict[str, Way]] = {
    "D01": {"training.group_size": "raise", "rollout.max_refill_groups": "raise"},
    "D03": {"training.learning_rate": "lower"},
    "D04": {"data.seed_count": "raise"},
    "D05": {"evaluation.instances": "raise"},
    "D08": {"training.learning_rate": "lower"},
    "D10": {"policy.max_tokens": "raise", "rollout.max_turns": "raise", "vllm.max_model_len": "raise"},
    "D11": {"training.clip_eps_low": "raise", "training.clip_eps_high": "raise"},
    "D12": {"training.batch_size": "lower"},
    "D15": {"training.max_lag": "lower", "training.weight_sync_interval": "lower", "training.learning_rate": "lower"},
    "D16": {"rollout.max_concurrent_rollouts": "lower", "training.max_lag": "raise", "rollout.timeout_s": "raise"},
    "D17": {
        "training.group_size": "raise",
        "rollout.max_refill_groups": "raise",
        "training.max_lag": "raise",
        "policy.max_tokens": "raise",
        "rollout.timeout_s": "raise",
        "judge.timeout_s": "raise",
        "training.max_seq_len": "raise",
    },
    "D19": {"training.weight_sync_interval": "raise"},
    "D20": {"training.learning_rate": "lower"},
    "D21": {"training.learning_rate": "raise"},
    "D22": {"training.learning_rate": "lower", "training.max_grad_norm": "raise"},
    "D23": {"training.learning_rate": "lower"},
    "D27": {"rollout.timeout_s": "raise", "rollout.max_concurrent_rollouts": "lower"},
    "D29": {
        "compute.topology.gpus_for_vllm": "raise",
        "rollout.max_concurrent_rollouts": "raise",
        "training.max_lag": "raise",
        "rollout.timeout_s": "lower",
        "evaluation.every_n_iters": "raise",
        "evaluation.instances": "lower",
    },
    "D30": {
        "training.max_lag": "raise",
        "compute.topology.gpus_for_training": "raise",
        "training.micro_batch_tokens": "raise",
    },
    "D31": {"rollout.max_concurrent_rollouts": "raise"},
    "D32": {
        "training.micro_batch_tokens": "lower",
        "training.max_seq_len": "lower",
        "vllm.gpu_memory_utilization": "lower",
    },
    "D33": {"checkpoint.keep_last": "lower"},
}


def way(rule: str, key: str) -> Way | None:
    """None: the rule does not know, or there is no such key."""
    return WAYS.get(rule, {}).get(key)
