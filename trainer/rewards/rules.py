"""What of the config shapes an episode's reward."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Literal

from trainer.config import RunConfig

COUNTED_KINDS = ("binary", "unique")  # of events, which per-achievement counting replaces


@dataclass(frozen=True, slots=True)
class Blend:
    """Weights of the three parts of R. Without a judge the environment alone counts."""

    env: float = 1.0
    event: float = 0.0
    outcome: float = 0.0

    def record(self) -> dict[str, float]:
        return {"env": self.env, "event": self.event, "outcome": self.outcome}


ENV_ONLY = Blend()


@dataclass(frozen=True, slots=True)
class RewardRules:
    """[training.rewards] and the blend (CONFIG 6). As it stands: the outcome alone, one advantage an episode.

    Attributes:
        enabled: whether R has a step term.
        mode: indicator, decision_stepwise, env_sparse, off.
        progress_weight: lambda.
        beta: as the config resolves it: 0 with decision_stepwise has become 1.
        event_kind: binary, continuous, unique, absolute.
        weights: of achievements; one that is not named weighs 1.
        k_limits: how often an achievement counts in an episode; one that is not named once, <= 0 without limit.
        per_turn: each turn has its own advantage.
    """

    enabled: bool = False
    mode: str = "indicator"
    progress_weight: float = 0.1
    beta: float = 1.0
    event_kind: str = "binary"
    weights: Mapping[str, float] = field(default_factory=dict)
    k_limits: Mapping[str, int] = field(default_factory=dict)
    per_turn: bool = False
    blend: Blend = ENV_ONLY

    @property
    def counts_achievements(self) -> bool:
        """Whether either table is given, which asks for per-achievement counting."""
        return bool(self.weights or self.k_limits) and self.event_kind in COUNTED_KINDS

    @property
    def step_weight(self) -> float:
        """What each r_t weighs in R; 0: there is no step term."""
        return self.blend.env * self.beta if self.enabled and self.mode != "off" else 0.0


OUTCOME_ALONE = RewardRules()


def reward_rules(config: RunConfig, split: Literal["train", "eval"], blend: Mapping[str, float]) -> RewardRules:
    """How an episode is scored. An evaluation compares nothing: it needs no credit per turn."""
    training, rewards = config.training, config.training.rewards
    return RewardRules(
        enabled=rewards.step_rewards_enabled,
        mode=rewards.step_rewards_mode,
        progress_weight=rewards.step_rewards_indicator_lambda,
        beta=rewards.step_rewards_beta,
        event_kind=rewards.event_rewards_kind,
        weights=training.step_rewards_weights,
        k_limits=training.step_rewards_k_limits,
        per_turn=split == "train" and rewards.step_rewards_strategy == "per_turn",
        blend=Blend(**blend),
    )
