"""What a run would take, by the episodes of a smoke test: rollouts alone, the trainer's time is not known here. Pure.

Each number that goes in is told (`inputs`), so that the sum can be checked by hand.
"""

from __future__ import annotations

import json
import math
import statistics
from collections.abc import Sequence

from rltui.smoke.report import Episode, Forecast, Plan, Turn
from rltui.words import duration, size

ENOUGH = 4  # episodes below which times are a guess
TOKEN_BYTES = 4 + 1 + 2 + 4 + 3 * 4  # ids, mask, turn, logp_behavior; logp_learner, logp_proximal, adv (WIRE 5.6)
CUT_SHARE = 0.1  # of answers that meet max_tokens
TURNS_SHARE = 0.5  # of episodes that use all turns
WITHOUT_MODEL = ("mock", "scripted", "human")


def forecast_of(episodes: Sequence[Episode], plan: Plan) -> Forecast:
    """Of the episodes that finished. A person's time is no part of any number."""
    done = [episode for episode in episodes if episode.R is not None]
    if not done:
        nothing = "no episode finished, so nothing can be estimated"
        return Forecast(None, None, None, None, None, None, None, None, None, None, warnings=(nothing,))
    by_hand = any(episode.policy == "human" for episode in done)
    without_model = any(episode.policy in WITHOUT_MODEL for episode in done)
    seconds = [e.seconds - e.policy_seconds if e.policy == "human" else e.seconds for e in done]
    mean, p50, p95 = statistics.fmean(seconds), quantile(seconds, 0.5), quantile(seconds, 0.95)
    waiting = 0.0 if by_hand else sum(episode.policy_seconds for episode in done)
    share = None if without_model or not sum(seconds) else min(1.0, waiting / sum(seconds))
    inputs = [f"{len(done)} episodes: p50 {p50:.3g} s, p95 {p95:.3g} s, mean {mean:.3g} s"]
    if share is not None:
        inputs.append(f"of that time {share:.0%} is the model's, the rest the task app's")
    elif without_model:
        inputs.append("no model played: its time is not in any of these numbers")
    iteration = _iteration(mean, plan, inputs)
    hours = gpu_hours = None
    if iteration is not None and plan.iterations is not None:
        hours = plan.iterations * iteration / 3600
        total = f"{plan.iterations} iterations x {iteration:.3g} s = {duration(plan.iterations * iteration)}"
        inputs.append(f"{total} at least: the trainer's own time is not known")
        if plan.gpus:
            gpu_hours = hours * plan.gpus
            inputs.append(f"{hours:.3g} h x {plan.gpus} GPUs = {gpu_hours:.3g} GPU-hours")
    turns = [len(episode.turns) for episode in done]
    contexts = [context for episode in done if (context := last_context(episode)) is not None]
    if contexts:
        inputs.append(f"longest context: {max(contexts)} tokens, mean {statistics.fmean(contexts):.0f}")
    return Forecast(
        episode_p50_s=p50,
        episode_p95_s=p95,
        policy_share=share,
        turns_mean=statistics.fmean(turns),
        turns_max=max(turns),
        tokens_mean=statistics.fmean(contexts) if contexts else None,
        minutes_per_iteration=None if iteration is None else iteration / 60,
        hours=hours,
        gpu_hours=gpu_hours,
        disk_bytes=_disk(done, contexts, plan, inputs),
        bound="" if share is None else "inference" if share > 0.5 else "task app",
        inputs=tuple(inputs),
        warnings=tuple(_warnings(done, contexts, plan, without_model)),
    )


def quantile(values: Sequence[float], q: float) -> float:
    """Linear interpolation between order statistics. values: at least one; q in [0, 1]."""
    ordered = sorted(values)
    at = q * (len(ordered) - 1)
    low, high = math.floor(at), math.ceil(at)
    return ordered[low] + (at - low) * (ordered[high] - ordered[low])


def last_context(episode: Episode) -> int | None:
    """Tokens of the longest call, answer included. None: the policy does not count."""
    found = [t.prompt_tokens + t.tokens for t in episode.turns if t.prompt_tokens is not None and t.tokens is not None]
    return max(found) if found and len(found) == sum(t.error is None for t in episode.turns) else None


def _iteration(mean: float, plan: Plan, inputs: list[str]) -> float | None:
    """Seconds of an iteration's rollouts."""
    number = plan.episodes_per_iteration
    if number is None:
        return None
    at_once = max(1, min(plan.concurrency, number))
    if plan.burst_episodes and plan.burst_seconds > 0:
        each = plan.burst_seconds / plan.burst_episodes
        inputs.append(f"{plan.burst_episodes} episodes at once took {plan.burst_seconds:.3g} s: {each:.3g} s each")
        told = f"an iteration: {number} episodes x {each:.3g} s"
        seconds = number * each
    else:
        seconds = number * mean / at_once
        told = f"an iteration: {number} episodes x {mean:.3g} s / {at_once} at once"
    if seconds < mean:  # fewer episodes than could be played at once
        inputs.append(f"an iteration: one episode's time, {mean:.3g} s, since all are played at once")
        return mean
    guess = "" if plan.burst_episodes else ", if many at once are as fast as one"
    inputs.append(f"{told} = {seconds:.3g} s{guess}")
    return seconds


def _disk(done: Sequence[Episode], contexts: Sequence[int], plan: Plan, inputs: list[str]) -> int | None:
    """Bytes of the rollouts' records."""
    if plan.iterations is None or plan.episodes_per_iteration is None:
        return None
    number = plan.iterations * plan.episodes_per_iteration
    text = statistics.fmean(sum(map(_text_bytes, episode.turns)) for episode in done)
    tokens = statistics.fmean(contexts) if contexts else 0.0
    each = round(text + TOKEN_BYTES * tokens)
    inputs.append(f"records: {number} episodes x {each} bytes = {size(number * each)}; checkpoints come on top")
    return number * each


def _text_bytes(turn: Turn) -> int:
    return sum(len(json.dumps(part, ensure_ascii=False).encode()) for part in (*turn.messages_tail, turn.reply))


def _warnings(done: Sequence[Episode], contexts: Sequence[int], plan: Plan, without_model: bool) -> list[str]:
    found = []
    if len(done) < ENOUGH:
        found.append(f"only {len(done)} episodes were timed: take the numbers as a guess")
    full = sum(len(episode.turns) >= plan.max_turns for episode in done)
    if plan.max_turns > 1 and not without_model and full >= TURNS_SHARE * len(done):
        found.append(f"{full} of {len(done)} episodes used all {plan.max_turns} turns: is rollout.max_turns enough?")
    sizes = [turn.tokens for episode in done for turn in episode.turns if turn.tokens is not None]
    if plan.max_tokens is not None and sizes and not without_model:
        cut = sum(size >= plan.max_tokens for size in sizes)
        if cut >= CUT_SHARE * len(sizes) and cut:
            found.append(f"{cut} of {len(sizes)} answers were cut at policy.max_tokens = {plan.max_tokens}")
    if plan.max_model_len is not None and contexts and max(contexts) >= plan.max_model_len:
        found.append(f"an episode filled vllm.max_model_len = {plan.max_model_len}: its end was cut")
    return found
