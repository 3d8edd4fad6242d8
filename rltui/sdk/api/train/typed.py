"""The shapes of what a job server tells (WIRE 3.4, 3.7): plain dicts, of which any part may be missing."""

from __future__ import annotations

from typing import Any, Literal, TypedDict

Status = Literal["queued", "running", "succeeded", "failed", "cancelled"]


class Progress(TypedDict, total=False):
    completed: int
    total: int
    unit: str
    updates: int
    total_updates: int
    episodes: int
    fraction: float
    eta_s: float | None


class Checkpoint(TypedDict, total=False):
    step: int
    iteration: int
    path: str  # absolute, on the server's machine
    bytes: int
    reward: float | None
    is_best: bool
    created_at: str


class Artifact(TypedDict, total=False):
    """A file of a checkpoint; `name` is how `download_artifact` is told which."""

    name: str
    kind: Literal["adapter", "model", "optimizer", "other"]
    bytes: int
    sha256: str | None
    step: int
    job_id: str
    url: str


class Results(TypedDict, total=False):
    status: Status
    final_reward: float | None
    best_reward: float | None
    best_step: int | None
    model_id: str
    checkpoints: list[Checkpoint]
    evaluation: dict[str, Any]
    episodes: int
    excluded: dict[str, int]
    wall_s: float
    tokens: int


class JobStatus(TypedDict, total=False):
    job_id: str
    id: str
    job_type: str
    status: Status
    state: Status  # the same
    phase: str
    label: str
    model: str
    base_model: str  # the same
    task_app_url: str
    created_at: str
    updated_at: str
    started_at: str | None
    finished_at: str | None
    queue_position: int | None  # of one that waits, 1: it is next
    waiting: dict[str, Any] | None  # {for, on, since}
    paused: dict[str, Any] | None  # {reason, by, since}
    progress: Progress
    attempt: int
    end_reason: str | None
    metrics: dict[str, float]
    best_reward: float | None
    final_reward: float | None
    model_id: str | None
    fine_tuned_model: str | None
    checkpoints: list[Checkpoint]
    results: Results | None
    error: dict[str, Any] | None
    warnings: list[Any]
    tags: dict[str, Any]
    metadata: dict[str, Any]
    config_hash: str
    last_seq: int
    linked_job_id: None
    run_dir: str  # on the server's machine


class Point(TypedDict, total=False):
    name: str
    value: float
    phase: Literal["train", "eval", "rollout", "system"]
    attempt: int
    step: int
    epoch: int
    iteration: int
    created_at: str
