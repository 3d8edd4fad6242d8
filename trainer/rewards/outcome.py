"""Episode reward R of CONFIG 6, for runs that take the environment's outcome alone."""

from __future__ import annotations

from typing import Any

import msgspec


class EpisodeReward(msgspec.Struct):
    """What an episode earned, term by term, as the run directory records it (WIRE 5.6, `rewards`)."""

    outcome: float
    outcome_path: str
    steps: list[float]
    total: float
    weights: dict[str, float]

    def record(self) -> dict[str, Any]:
        return {
            "O": self.outcome,
            "O_path": self.outcome_path,
            "steps": self.steps,
            "beta": 0.0,
            "event": None,
            "outcome": None,
            "weights": self.weights,
            "R": self.total,
        }


def episode_reward(outcome: float, outcome_path: str, step_rewards: list[float]) -> EpisodeReward:
    """R = O with the judge and the step rewards off; what the app reported per step is kept for the record."""
    return EpisodeReward(
        outcome=outcome,
        outcome_path=outcome_path,
        steps=step_rewards,
        total=outcome,
        weights={"env": 1.0, "event": 0.0, "outcome": 0.0},
    )
