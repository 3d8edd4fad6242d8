"""The one schema of a run's config (CONFIG section 2)."""

from typing import Literal

from trainer.config.schema.around import (
    CheckpointConfig,
    InferenceConfig,
    JudgeConfig,
    JudgeOptionsConfig,
    LoggingConfig,
    RewardBlend,
    SmokeConfig,
)
from trainer.config.schema.base import REQUIRED, OpenSection, Scalar, Section, key, section
from trainer.config.schema.learn import RewardsConfig, TrainingConfig
from trainer.config.schema.play import DataConfig, EvaluationConfig, RolloutConfig
from trainer.config.schema.setup import (
    AlgorithmConfig,
    ComputeConfig,
    MultimodalLimits,
    PolicyConfig,
    ServicesConfig,
    TopologyConfig,
    VllmConfig,
)
from trainer.config.schema.weights import LoraConfig, WeightSyncConfig


class RunConfig(Section):
    """A whole run. `evaluation` is None where the file has no such section: then nothing is evaluated."""

    type: Literal["rl"] = key("rl", origin="seen", help="The kind of job, stored as job_type. There is no other.")
    algorithm: AlgorithmConfig
    services: ServicesConfig
    compute: ComputeConfig = section(ComputeConfig)
    vllm: VllmConfig = section(VllmConfig)
    policy: PolicyConfig
    rollout: RolloutConfig
    data: DataConfig = section(DataConfig)
    evaluation: EvaluationConfig | None = None
    training: TrainingConfig
    judge: JudgeConfig = section(JudgeConfig)
    tags: dict[str, Scalar | list[Scalar]] = key(
        {},
        origin="ref",
        help="Names and values of your own, stored with the job, shown and filterable, and sent to trackers.",
        allowed="a table of strings, numbers, booleans, or lists of these",
        example={"team": "mine"},
    )
    smoke: SmokeConfig = section(SmokeConfig)
    checkpoint: CheckpointConfig = section(CheckpointConfig)
    inference: InferenceConfig = section(InferenceConfig)
    logging: LoggingConfig = section(LoggingConfig)


__all__ = [
    "REQUIRED",
    "AlgorithmConfig",
    "CheckpointConfig",
    "ComputeConfig",
    "DataConfig",
    "EvaluationConfig",
    "InferenceConfig",
    "JudgeConfig",
    "JudgeOptionsConfig",
    "LoggingConfig",
    "LoraConfig",
    "MultimodalLimits",
    "OpenSection",
    "PolicyConfig",
    "RewardBlend",
    "RewardsConfig",
    "RolloutConfig",
    "RunConfig",
    "Section",
    "ServicesConfig",
    "SmokeConfig",
    "TopologyConfig",
    "TrainingConfig",
    "VllmConfig",
    "WeightSyncConfig",
]
