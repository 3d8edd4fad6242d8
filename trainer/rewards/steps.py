"""Step rewards r_t and the event values they are made of (CONFIG 6). Pure."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence

from trainer.rewards.rules import RewardRules
from trainer.rewards.turns import Turn


def event_values(turns: Sequence[Turn], rules: RewardRules) -> list[float]:
    """event_t of each turn. Per-achievement counting takes the place of binary and unique."""
    if rules.counts_achievements:
        return achievement_values(turns, rules.weights, rules.k_limits)
    match rules.event_kind:
        case "binary":
            return [float(turn.reward > 0) for turn in turns]
        case "continuous":
            return [turn.reward for turn in turns]
        case "unique":
            return [float(turn.unlocks.any_new) for turn in turns]
        case "absolute":
            return [turn.unlocks.delta for turn in turns]
    raise ValueError(f"event_rewards_kind {rules.event_kind!r}")


def achievement_values(turns: Sequence[Turn], weights: Mapping[str, float], k_limits: Mapping[str, int]) -> list[float]:
    """Sum over a turn's unlocks of the achievement's weight, each at most k_limit times an episode.

    New ones without a name are all different, so each counts once and weighs 1.
    """
    counted: Counter[str] = Counter()
    values = []
    for turn in turns:
        value = float(turn.unlocks.unnamed)
        for name, times in turn.unlocks.counts.items():
            limit = k_limits.get(name, 1)
            counts = times if limit <= 0 else max(0, min(times, limit - counted[name]))
            counted[name] += counts
            value += counts * weights.get(name, 1.0)
        values.append(value)
    return values


def step_rewards(turns: Sequence[Turn], rules: RewardRules) -> list[float]:
    """r_t of each turn."""
    match rules.mode:
        case "indicator":
            return [rules.progress_weight * turn.progress for turn in turns]
        case "decision_stepwise":
            events = event_values(turns, rules)
            return [event + rules.progress_weight * turn.progress for event, turn in zip(events, turns, strict=True)]
        case "env_sparse":
            return [turn.reward for turn in turns]
        case "off":
            return [0.0] * len(turns)
    raise ValueError(f"step_rewards_mode {rules.mode!r}")
