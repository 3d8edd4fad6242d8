"""The config of a job as classes: `RLConfig.from_path("my.toml").training.learning_rate`."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

from pydantic import Field, PrivateAttr, model_validator

from rltui.sdk.api.train.configs.shared import AlgorithmConfig, ComputeConfig, LoraConfig, PolicyConfig, TopologyConfig
from rltui.sdk.api.train.configs.view import View
from trainer.config import schema

if TYPE_CHECKING:
    from trainer.config import Loaded


class RLServicesConfig(schema.ServicesConfig, View):
    """[services]: the programs that the run talks to."""

    section = "services"


class ModelConfig(View):
    """[model], an old name of [policy]: exactly one of source and base is given."""

    section = "model"
    source: str | None = None
    base: str | None = None
    trainer_mode: str
    label: str

    @model_validator(mode="after")
    def _one_of_source_and_base(self) -> ModelConfig:
        if bool(self.source) == bool(self.base):
            raise ValueError("exactly one of source and base is wanted")
        return self


class RolloutConfig(schema.RolloutConfig, View):
    """[rollout]: how episodes are collected."""

    section = "rollout"


class DataConfig(schema.DataConfig, View):
    """[data]: which tasks are trained on."""

    section = "data"


class EvaluationConfig(schema.EvaluationConfig, View):
    """[evaluation]: what is evaluated while the run is going."""

    section = "evaluation"


class WeightSyncConfig(schema.WeightSyncConfig, View):
    """[training.weight_sync]: how the engine gets the learner's weights."""

    section = "training.weight_sync"


class RewardsConfig(schema.RewardsConfig, View):
    """[training.rewards]: what single turns add to an episode's reward."""

    section = "training.rewards"


class RLTrainingConfig(schema.TrainingConfig, View):
    """[training]. The six names from step_rewards_enabled on are old spellings of those of `rewards`."""

    section = "training"
    weight_sync: WeightSyncConfig | None = None  # type: ignore[assignment]  # None: not given
    lora: LoraConfig | None = None  # type: ignore[assignment]  # None: not given
    rewards: RewardsConfig | None = None  # type: ignore[assignment]  # None: not given
    step_rewards_enabled: bool | None = None
    step_rewards_mode: str | None = None
    step_rewards_indicator_lambda: float | None = None
    step_rewards_beta: float | None = None
    step_rewards_strategy: str | None = None
    event_rewards_kind: str | None = None


class JudgeOptionsConfig(schema.JudgeOptionsConfig, View):
    """[judge.options]: what is judged, by whom, and against which rubric."""

    section = "judge.options"


class RubricConfig(View):
    """[judge.rubric], an old name of judge.enabled and judge.reward_blend."""

    section = "judge.rubric"
    enabled: bool = False
    reward_blend: dict[str, float] = Field(default_factory=lambda: {"env": 1.0})


class JudgeConfig(schema.JudgeConfig, View):
    """[judge]: rewards from a model or from rules. `reward_blend` None: env and outcome, 0.5 each."""

    section = "judge"
    reward_blend: dict[str, float] | None = None  # type: ignore[assignment]  # None: not given
    rubric: RubricConfig | None = None
    options: JudgeOptionsConfig | None = None  # type: ignore[assignment]  # None: not given


VerifierConfig, VerifierOptionsConfig = JudgeConfig, JudgeOptionsConfig  # later names of the same


class SmokeConfig(schema.SmokeConfig, View):
    """[smoke]: read by `rltui smoke` only."""

    section = "smoke"


class CheckpointConfig(schema.CheckpointConfig, View):
    """[checkpoint]: when the run is saved, and what is kept."""

    section = "checkpoint"


class InferenceConfig(schema.InferenceConfig, View):
    """[inference]: the engine, and the gateway in front of it."""

    section = "inference"


class LoggingConfig(schema.LoggingConfig, View):
    """[logging]: where the run is recorded."""

    section = "logging"


class RLConfig(View):
    """The whole config. topology, reference, model, lora and rubric are old spellings, which still work.

    What was given is here as it was given. What it comes to, with defaults, derived values and where each comes
    from, is what `resolve()` tells, which also checks what concerns several keys.
    """

    algorithm: AlgorithmConfig
    services: RLServicesConfig
    compute: ComputeConfig | None = None
    topology: dict[str, Any] | None = None
    vllm: dict[str, Any] | None = None
    reference: dict[str, Any] | None = None
    model: ModelConfig | None = None
    policy: PolicyConfig | None = None
    lora: LoraConfig | None = None
    rollout: RolloutConfig | None = None
    data: DataConfig | None = None
    evaluation: EvaluationConfig | None = None
    training: RLTrainingConfig | None = None
    rubric: dict[str, Any] | None = None
    judge: JudgeConfig | None = None
    tags: dict[str, Any] | None = None
    smoke: SmokeConfig | None = None
    checkpoint: CheckpointConfig | None = None
    inference: InferenceConfig | None = None
    logging: LoggingConfig | None = None

    _file: tuple[str, str] | None = PrivateAttr(None)  # its text and its name

    def __eq__(self, other: object) -> bool:
        """By what is in it, wherever it was read."""
        if not isinstance(other, RLConfig):
            return False
        return self.__dict__ == other.__dict__ and self.__pydantic_extra__ == other.__pydantic_extra__

    @classmethod
    def from_mapping(cls, data: Mapping[str, Any]) -> RLConfig:
        """From nested plain data. Raises ConfigError, whose places are JSON pointers."""
        from rltui.sdk.api.train.configs.reading import view_of_mapping

        return view_of_mapping(cls, data)

    @classmethod
    def from_path(cls, path: Path | str) -> RLConfig:
        """From a TOML file. Raises FileNotFoundError, and ConfigError with file, line and column."""
        from rltui.sdk.api.train.configs.reading import view_of_file

        config, text = view_of_file(cls, Path(path))
        config._file = text, str(path)
        return config

    def resolve(self) -> Loaded:
        """Every value with its origin, and all warnings. Raises ConfigError for all that is wrong."""
        from rltui.sdk.api.train.configs.reading import resolved

        return resolved(self.to_dict(), self._file)


__all__ = [
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
    "ModelConfig",
    "PolicyConfig",
    "RLConfig",
    "RLServicesConfig",
    "RLTrainingConfig",
    "RewardsConfig",
    "RolloutConfig",
    "RubricConfig",
    "SmokeConfig",
    "TopologyConfig",
    "VerifierConfig",
    "VerifierOptionsConfig",
    "WeightSyncConfig",
]
