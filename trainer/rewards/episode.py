"""The reward R of an episode, and what it is made of (CONFIG 6). Pure: the one place where rewards are made."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import accumulate
from typing import Any

from trainer.rewards.rules import ENV_ONLY, Blend, RewardRules
from trainer.rewards.steps import event_values, step_rewards
from trainer.rewards.turns import Turn, read_turns
from trainer.taskapp.errors import RolloutFailure
from trainer.taskapp.parse import ParsedRollout

LARGEST = 1e18  # of R: its square, as in a norm of gradients, fits float32


@dataclass(frozen=True, slots=True)
class JudgeScores:
    """J_event and J_outcome; None: that kind of judging is off, and its weight is 0."""

    event: float | None = None
    outcome: float | None = None


NO_JUDGE = JudgeScores()


@dataclass(frozen=True, slots=True)
class EpisodeReward:
    """What an episode earned, term by term (WIRE 5.6, `rewards`).

    Attributes:
        outcome: O, read at `outcome_path`.
        total: R.
        steps: r_t of each turn, or of each step where those do not match the turns. Step rewards off: e_t, to be seen.
        events: event_t likewise; empty where the mode has none.
        matched: entry t of `steps` is turn t.
        beta: the weight of the sum of `steps` beside O; 0: there is no step term.
        returns: G_t of each turn under per-turn credit, else empty.
        warnings: kinds of taskapp.codes.WARNINGS.
    """

    outcome: float
    outcome_path: str
    total: float
    steps: tuple[float, ...] = ()
    events: tuple[float, ...] = ()
    matched: bool = False
    beta: float = 0.0
    judged: JudgeScores = NO_JUDGE
    blend: Blend = ENV_ONLY
    returns: tuple[float, ...] = ()
    warnings: tuple[str, ...] = ()

    @property
    def step_sum(self) -> float:
        return float(sum(self.steps))

    @property
    def env(self) -> float:
        """What w_env weighs."""
        return self.outcome + self.beta * self.step_sum if self.beta else self.outcome

    def record(self) -> dict[str, Any]:
        return {
            "O": self.outcome,
            "O_path": self.outcome_path,
            "steps": list(self.steps),
            "beta": self.beta,
            "event": self.judged.event,
            "outcome": self.judged.outcome,
            "weights": self.blend.record(),
            "R": self.total,
        }


def reward_of(parsed: ParsedRollout, calls: int, rules: RewardRules, judged: JudgeScores = NO_JUDGE) -> EpisodeReward:
    """The reward of an episode with that many turns.

    Raises:
        RolloutFailure: `turn_mapping`: per-turn credit needs step rewards that no turn can be found for;
            `reward_not_finite`: R is beyond `LARGEST`.
    """
    turns = read_turns(parsed, calls)
    if rules.per_turn and rules.step_weight and not turns.matched:
        reported = len(parsed.steps) or len(parsed.event_rewards)
        raise RolloutFailure("turn_mapping", {"steps": reported, "calls": calls})
    steps = step_rewards(turns.items, rules) if rules.enabled else [turn.reward for turn in turns.items]
    stepwise = rules.enabled and rules.mode == "decision_stepwise"
    beta = rules.beta if rules.step_weight else 0.0
    total = blended(parsed.outcome, steps if beta else (), beta, judged, rules.blend)
    returns = returns_to_go(total, steps, rules.step_weight, calls) if rules.per_turn else []
    beyond = [value for value in (total, *returns) if not abs(value) <= LARGEST]
    if beyond:
        value = f"{beyond[0]:g}, beyond {LARGEST:g}"
        raise RolloutFailure("reward_not_finite", {"path": "the sum of its parts", "value": value})
    return EpisodeReward(
        outcome=parsed.outcome,
        outcome_path=parsed.outcome_path,
        total=total,
        steps=tuple(steps),
        events=tuple(event_values(turns.items, rules)) if stepwise else (),
        matched=turns.matched,
        beta=beta,
        judged=judged,
        blend=rules.blend,
        returns=tuple(returns),
        warnings=tuple(_warnings(parsed.outcome, turns.items, turns.matched, rules)),
    )


def blended(outcome: float, steps: Sequence[float], beta: float, judged: JudgeScores, blend: Blend) -> float:
    """R = w_env (O + beta sum r_t) + w_event J_event + w_outcome J_outcome.

    ValueError: a judge's score is missing and has weight: it is never taken for 0.
    """
    total = blend.env * (outcome + beta * sum(steps))
    for name, weight, score in (("event", blend.event, judged.event), ("outcome", blend.outcome, judged.outcome)):
        if weight and score is None:
            raise ValueError(f"the judge's {name} score has weight {weight} and is missing")
        if score is not None:
            total += weight * score
    return total


def returns_to_go(total: float, steps: Sequence[float], weight: float, calls: int) -> list[float]:
    """[calls] G_t: R without the step rewards of the turns before t. Each step reward weighs `weight` in R."""
    if not weight:
        return [total] * calls
    return [total - weight * earlier for earlier in accumulate(steps[:-1], initial=0.0)]


def turn_rewards(reward: EpisodeReward, calls: int) -> list[float]:
    """[calls] what each turn earns, in sum R: its weighted step reward, and at the last turn all the rest (ppo)."""
    weight = reward.blend.env * reward.beta
    earned = [weight * step for step in reward.steps] if weight and reward.matched else [0.0] * calls
    earned[-1] += reward.total - sum(earned)
    return earned


def _warnings(outcome: float, turns: Sequence[Turn], matched: bool, rules: RewardRules) -> list[str]:
    if not rules.step_weight:
        return []
    found = [] if matched else ["turns_unmatched"]
    total = sum(turn.reward for turn in turns)
    if rules.mode == "env_sparse" and total and math.isclose(outcome, total, rel_tol=1e-6):
        found.append("steps_count_twice")
    if rules.mode == "decision_stepwise" and rules.counts_achievements and any(turn.unlocks.unnamed for turn in turns):
        found.append("achievements_unnamed")
    return found
