"""Train language models by reinforcement learning from a terminal, or from a program: what the latter needs is here,
and loaded when it is first used."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from rltui.sdk import (
        EvaluationConfig,
        InProcessTaskApp,
        JudgeConfig,
        JudgeOptionsConfig,
        ModelConfig,
        RewardsConfig,
        RLConfig,
        RLJob,
        RLJobConfig,
        RLServicesConfig,
        RLTrainingConfig,
        RolloutConfig,
        RubricConfig,
        SmokeConfig,
        WeightSyncConfig,
    )

__all__ = [
    "EvaluationConfig",
    "InProcessTaskApp",
    "JudgeConfig",
    "JudgeOptionsConfig",
    "ModelConfig",
    "RLConfig",
    "RLJob",
    "RLJobConfig",
    "RLServicesConfig",
    "RLTrainingConfig",
    "RewardsConfig",
    "RolloutConfig",
    "RubricConfig",
    "SmokeConfig",
    "WeightSyncConfig",
]


def __getattr__(name: str) -> Any:
    if name not in __all__:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    import rltui.sdk

    return getattr(rltui.sdk, name)


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__})
