"""The programming interface (WIRE 4): a job from a config, a task app in this process, and the config's classes.

from rltui.sdk import InProcessTaskApp, RLJob
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from rltui.sdk.lazy import lazily

if TYPE_CHECKING:
    from rltui.sdk.api.train.configs.rl import (
        EvaluationConfig,
        JudgeConfig,
        JudgeOptionsConfig,
        ModelConfig,
        RewardsConfig,
        RLConfig,
        RLServicesConfig,
        RLTrainingConfig,
        RolloutConfig,
        RubricConfig,
        SmokeConfig,
        WeightSyncConfig,
    )
    from rltui.sdk.api.train.rl import RLJob, RLJobConfig
    from rltui.sdk.task.in_process import InProcessTaskApp

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
MODULES = dict.fromkeys(__all__, "rltui.sdk.api.train.configs.rl") | {
    "InProcessTaskApp": "rltui.sdk.task.in_process",
    "RLJob": "rltui.sdk.api.train.rl",
    "RLJobConfig": "rltui.sdk.api.train.rl",
}
__getattr__ = lazily(__name__, MODULES)


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__})
