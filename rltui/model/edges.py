"""Who is waited for, in words, and the limit that ends it, by what the run says that it waits for (WIRE 5.4)."""

from __future__ import annotations

EDGES: dict[str, tuple[str, str]] = {
    "batch": ("the trainer waits for the episodes of the next batch", "rollout.timeout_s"),
    "policy": ("rollouts wait for the policy", "training.max_lag"),
    "judge": ("episodes wait for the judge", "judge.timeout_s"),
    "straggler": ("the trainer waits for one slow episode", "rollout.timeout_s"),
    "eval": ("the evaluation is waited for", "rollout.timeout_s"),
    "engine": ("the inference engine is waited for", "inference.startup_timeout_s"),
    "task_app": ("the task app is waited for", "rollout.timeout_s"),
    "sync": ("the weights are on their way to the engine", "inference.startup_timeout_s"),
}
