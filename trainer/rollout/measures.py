"""Numbers of an iteration's or an evaluation's episodes, under the names of DESIGN 7. Pure."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence

import numpy as np

from trainer.rewards.advantages import mean_and_std
from trainer.rollout.episode import TRUNCATED, Episode
from trainer.rollout.groups import Group, Tally

ALL_GOOD = 1.0 - 1e-6


def iteration_metrics(groups: Sequence[Group], tally: Tally) -> dict[str, float]:
    """reward/*, length/*, turns/*, stop/*, error/*, tokens/*: what stands on the last step of an iteration."""
    episodes = [episode for group in groups for episode in group.members]
    rewards = np.array([episode.total for episode in episodes], dtype=np.float64)
    mean, std = mean_and_std(rewards)
    advantages = [group.advantages for group in groups if group.advantages is not None]
    dead = [a.dead for a in advantages]
    good = [d and a.mean >= ALL_GOOD for d, a in zip(dead, advantages, strict=True)]
    bad = [d and a.mean <= 1e-6 for d, a in zip(dead, advantages, strict=True)]
    metrics = {
        "reward/mean": mean,
        "reward/std": std,
        "reward/max": float(rewards.max()),
        "reward/frac_zero_std": float(np.mean(dead)),
        "reward/frac_all_good": float(np.mean(good)),
        "reward/frac_all_bad": float(np.mean(bad)),
        **reward_parts(episodes),
        **episode_metrics(episodes),
    }
    metrics |= {f"error/{code}": float(count) for code, count in tally.excluded.items()}
    counts: Counter[str] = Counter()
    for episode in episodes:
        counts.update(episode.token_counts)
        counts["sampling_forced"] += sum(episode.forced.values())
    return metrics | {f"tokens/{name}": float(count) for name, count in counts.items()}


def reward_parts(episodes: Sequence[Episode]) -> dict[str, float]:
    """reward/{env, event, outcome}: means of what the blend weighs. Without a judge there is no score of its."""
    rewards = [episode.reward for episode in episodes if episode.reward is not None]
    parts = {
        "env": [reward.env for reward in rewards],
        "event": [reward.judged.event for reward in rewards if reward.judged.event is not None],
        "outcome": [reward.judged.outcome for reward in rewards if reward.judged.outcome is not None],
    }
    return {f"reward/{name}": float(np.mean(values)) for name, values in parts.items() if values}


def episode_metrics(episodes: Sequence[Episode]) -> dict[str, float]:
    """Lengths in sampled tokens, turns, stop reasons as shares."""
    lengths = np.array([episode.sampled_tokens for episode in episodes], dtype=np.float64)
    stops = Counter(episode.stop for episode in episodes)
    return {
        "length/mean": float(lengths.mean()),
        "length/max": float(lengths.max()),
        "length/truncated": sum(stops[reason] for reason in TRUNCATED) / len(episodes),
        "turns/mean": float(np.mean([len(episode.calls) for episode in episodes])),
        **{f"stop/{reason}": count / len(episodes) for reason, count in stops.items()},
    }


def evaluation_metrics(episodes: Sequence[Episode]) -> dict[str, float]:
    """eval/*; excluded episodes are counted and never scored. Without any scored episode there is no reward."""
    scored = [episode for episode in episodes if episode.total is not None]
    metrics = {"eval/episodes": float(len(scored)), "eval/excluded": float(len(episodes) - len(scored))}
    if scored:
        rewards = np.array([episode.total for episode in scored], dtype=np.float64)
        mean, std = mean_and_std(rewards)
        metrics |= {"eval/reward_mean": mean, "eval/reward_std": std}
        # the environment's part and the judge's apart: eval/reward_env, eval/reward_outcome
        metrics |= {f"eval/{name.replace('/', '_')}": value for name, value in reward_parts(scored).items()}
        metrics |= {f"eval/{name}": value for name, value in episode_metrics(scored).items()}
    return metrics
