"""The parts of requests and answers between a run and its task app (WIRE 1), for those who write one."""

from __future__ import annotations

from enum import StrEnum
from typing import Any

from pydantic import BaseModel, ConfigDict, Field

from trainer.taskapp.contracts import (
    DatasetInfo,
    InferenceInfo,
    LimitsInfo,
    RolloutEnvSpec,
    RolloutPolicySpec,
    RolloutRequest,
    RolloutSafetyConfig,
    RubricCriterion,
    RubricInfo,
    RubricSection,
    TaskDescriptor,
    TaskInfo,
)


class OutputMode(StrEnum):
    """How the policy is to answer."""

    TOOL_CALLS = "tool_calls"
    TEXT = "text"
    STRUCTURED = "structured"


class _AnswerPart(BaseModel):
    """Extras are kept and sent: what the run reads of an answer is told by WIRE 1.5, whatever stands beside it."""

    model_config = ConfigDict(extra="allow")


class RolloutStep(_AnswerPart):
    """One turn, as apps up to 0.4.1 tell it."""

    obs: dict[str, Any] = Field(default_factory=dict)
    tool_calls: list[dict[str, Any]] = Field(default_factory=list)
    reward: float | None = None
    done: bool = False
    truncated: bool | None = None
    info: dict[str, Any] | None = None


class RolloutTrajectory(_AnswerPart):
    """One episode, as apps up to 0.4.1 tell it."""

    env_id: str | None = None
    policy_id: str | None = None
    steps: list[RolloutStep] = Field(default_factory=list)
    final: dict[str, Any] | None = None
    length: int | None = None
    inference_url: str | None = None


class RolloutMetrics(_AnswerPart):
    """`outcome_reward` is the reward of the episode; older apps give `mean_return` and `episode_returns`."""

    outcome_reward: float | None = None
    event_rewards: list[float] | None = None
    outcome_objectives: dict[str, float] | None = None
    event_objectives: list[dict[str, float]] | None = None
    details: dict[str, Any] = Field(default_factory=dict)


class RolloutResponse(_AnswerPart):
    """What a rollout function returns. The server fills in the id and the inference URL where they are missing."""

    metrics: RolloutMetrics
    trace_correlation_id: str | None = None
    run_id: str | None = None
    trajectories: list[RolloutTrajectory] | None = None
    trace: dict[str, Any] | None = None
    inference_url: str | None = None
    pipeline_metadata: dict[str, Any] | None = None


__all__ = [
    "DatasetInfo",
    "InferenceInfo",
    "LimitsInfo",
    "OutputMode",
    "RolloutEnvSpec",
    "RolloutMetrics",
    "RolloutPolicySpec",
    "RolloutRequest",
    "RolloutResponse",
    "RolloutSafetyConfig",
    "RolloutStep",
    "RolloutTrajectory",
    "RubricCriterion",
    "RubricInfo",
    "RubricSection",
    "TaskDescriptor",
    "TaskInfo",
]
