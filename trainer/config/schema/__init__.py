"""The one schema of a run's config (CONFIG section 2)."""

from typing import Literal

from pydantic import Field

from trainer.config.schema.around import (
    CheckpointConfig,
    InferenceConfig,
    JudgeConfig,
    JudgeOptionsConfig,
    LoggingConfig,
    RewardBlend,
    SmokeConfig,
)
from trainer.config.schema.base import REQUIRED, OpenSection, Scalar, Section, key
from trainer.config.schema.learn import LoraConfig, RewardsConfig, TrainingConfig, WeightSyncConfig
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


class RunConfig(Section):
    """A whole run. `evaluation` is None where the file has no such section: then nothing is evaluated."""

    type: Literal["rl"] = key("rl", help="the job kind")
    algorithm: AlgorithmConfig
    services: ServicesConfig
    compute: ComputeConfig = Field(default_factory=ComputeConfig)
    vllm: VllmConfig = Field(default_factory=VllmConfig)
    policy: PolicyConfig
    rollout: RolloutConfig
    data: DataConfig = Field(default_factory=DataConfig)
    evaluation: EvaluationConfig | None = None
    training: TrainingConfig
    judge: JudgeConfig = Field(default_factory=JudgeConfig)
    tags: dict[str, Scalar | list[Scalar]] = key({}, help="stored with the job, shown and filterable")
    smoke: SmokeConfig = Field(default_factory=SmokeConfig)
    checkpoint: CheckpointConfig = Field(default_factory=CheckpointConfig)
    inference: InferenceConfig = Field(default_factory=InferenceConfig)
    logging: LoggingConfig = Field(default_factory=LoggingConfig)


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
