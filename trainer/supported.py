"""Which of the values that a config may hold this trainer can carry out. What it cannot is refused by name."""

from __future__ import annotations

from trainer.config import RunConfig
from trainer.errors import EXIT_CONFIG, RunError

VARIETIES = ("gspo", "gspo_token")
MODES = ("lora", "full")


def check(config: RunConfig) -> None:
    """Raises RunError (exit 2) for the first value that names machinery which does not exist yet."""
    training, compute = config.training, config.compute
    refused = {
        "algorithm.variety": (config.algorithm.variety not in VARIETIES, config.algorithm.variety, VARIETIES),
        "policy.trainer_mode": (config.policy.trainer_mode not in MODES, config.policy.trainer_mode, MODES),
        "policy.source": (config.policy.source is not None, config.policy.source, ("policy.model_name",)),
        "training.anchor": (training.anchor != "behavior", training.anchor, ("behavior",)),
        "training.kl_coef": (training.kl_coef > 0, training.kl_coef, (0.0,)),
        "judge.enabled": (config.judge.enabled, True, (False,)),
        "compute.launcher": (compute.launcher != "local", compute.launcher, ("local",)),
        "training.rewards.step_rewards_enabled": (training.rewards.step_rewards_enabled, True, (False,)),
    }
    for key, (is_refused, value, allowed) in refused.items():
        if is_refused:
            choices = ", ".join(str(choice) for choice in allowed)
            raise RunError(
                "not_supported",
                f"{key} = {value} is valid, but this version of the trainer cannot carry it out yet",
                f"use {key}: {choices}",
                exit_code=EXIT_CONFIG,
            )


def without_effect(config: RunConfig) -> list[str]:
    """One sentence for each value that is accepted, changes nothing yet, and would be missed."""
    training = config.training
    notes = []
    if training.max_lag:
        notes.append(
            f"training.max_lag = {training.max_lag}: this version trains synchronously, so the lag is always 0"
        )
    if config.rollout.max_refill_groups:
        notes.append("rollout.max_refill_groups: dead groups are not replaced yet")
    if training.weight_sync.mode == "lora" and training.weight_sync.enable and config.inference.engine == "local":
        notes.append("training.weight_sync.mode = lora: the local engine is served merged weights")
    for name in ("tensorboard", "wandb", "trackio"):
        if getattr(config.logging, name):
            notes.append(f"logging.{name}: trackers are not written yet; metrics.jsonl has every number")
    return notes
