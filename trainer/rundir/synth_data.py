"""What synthetic runs are made of: pure draws from a seeded generator."""

from __future__ import annotations

import math
from typing import Any

import msgspec
import numpy as np

from trainer.rollout.types import Branch, Span
from trainer.rundir.records import TurnRecord
from trainer.rundir.synth_judge import TIMEOUT_S, WEIGHTS

KINDS = {
    "healthy": "reward rises, the run succeeds",
    "running": "as healthy, but still going; its process is this one",
    "collapsed": "from the middle on all rewards of a group are equal",
    "stalled": "running, no step for long, waiting for the task app; its process is this one",
    "crashed": "the coordinator's process is gone, status still says running",
    "torn": "as crashed, and the last line of every file is half written",
    "resumed": "two attempts; the second goes on from a checkpoint before the first one's end",
    "failed": "ended by an error of the task app",
}


class SynthConfig(msgspec.Struct, kw_only=True, frozen=True):
    """Shape of a synthetic run. An iteration is `groups` x `group_size` episodes and `updates` steps."""

    episodes: int = 256
    kind: str = "healthy"
    seed: int = 0
    groups: int = 4
    group_size: int = 8
    updates: int = 2
    turns: int = 1
    tokens: int = 24  # sampled tokens a turn, about
    eval_every: int = 10  # iterations
    checkpoint_every: int = 10
    learner_blocks: bool = True
    judge: bool = False  # whether episodes are judged, too

    @property
    def per_iteration(self) -> int:
        return self.groups * self.group_size

    @property
    def iterations(self) -> int:
        return math.ceil(self.episodes / self.per_iteration)


def reward_level(config: SynthConfig, iteration: int) -> float:
    """Mean reward: from 0.26 to 0.7 along a saturating curve."""
    return 0.26 + 0.44 * (1 - math.exp(-3 * iteration / max(1, config.iterations)))


def draw_branch(random: np.random.Generator, config: SynthConfig, iteration: int) -> tuple[Branch, list[list[int]]]:
    """Prompt of 20 tokens, then answers with 6 tokens of environment between them."""
    ids: list[int] = []
    mask: list[int] = []
    turn_of: list[int] = []
    spans: list[list[int]] = []
    for turn in range(config.turns):
        prompt = 20 if turn == 0 else 6
        sampled = 1 + int(random.poisson(config.tokens))
        spans.append([len(ids) + prompt, len(ids) + prompt + sampled])
        ids += random.integers(0, 32_000, prompt + sampled).tolist()
        mask += [0] * prompt + [1] * sampled
        turn_of += [turn] * (prompt + sampled)
    logp = np.where(mask, -random.exponential(0.7, len(ids)), 0.0).tolist()
    branch = Branch(
        ids=ids,
        mask=mask,
        turn=turn_of,
        logp=logp,
        spans=[Span(start=a, end=b, weight_version=max(0, iteration - 1)) for a, b in spans],
        weight=1.0,
        first_turn=0,
        calls=list(range(config.turns)),
        prefix=["first"] + ["clean"] * (config.turns - 1),
    )
    return branch, spans


def learner_logp(branch: Branch, ratio: float, seed: int) -> np.ndarray:
    """Log-probabilities [tokens] whose mean log-ratio to the behaviour's is that of `ratio`; a draw of its own."""
    mask = np.asarray(branch.mask, bool)
    noise = np.random.default_rng(seed).normal(0, 0.03, len(mask))
    found = np.zeros(len(mask), np.float32)
    found[mask] = np.asarray(branch.logp)[mask] + noise[mask] - noise[mask].mean() + math.log(ratio)
    return found


def step_metrics(random: np.random.Generator, config: SynthConfig, iteration: int) -> dict[str, float]:
    """Metrics that every update has."""
    noise = random.normal(0, 1, 6)
    progress = min(1.0, iteration / max(1, config.iterations))
    ratio_mean = 1 + 0.002 * float(noise[1])
    length = config.tokens * config.turns * (1 + 0.3 * progress)
    times = {
        "time/wait_for_batch": 0.4 + 0.1 * abs(float(noise[4])),
        "time/wait_for_policy": 0.0,
        "time/wait_for_judge": 0.0,
        "time/wait_for_straggler": 0.1,
        "time/wait_for_eval": 0.0,
        "time/forward_backward": 2.8,
        "time/weight_sync": 0.3 + 0.02 * abs(float(noise[5])),
        "time/checkpoint": 0.0,
    }
    return {
        "gspo/loss": 0.01 * float(noise[0]),
        "gspo/ratio_mean": ratio_mean,
        "gspo/ratio_min": ratio_mean - 0.02,
        "gspo/ratio_max": ratio_mean + 0.02,
        "gspo/clip_frac_low": 0.02 + 0.004 * abs(float(noise[1])),
        "gspo/clip_frac_high": 0.03 + 0.004 * abs(float(noise[2])),
        "gspo/clip_noise_floor": 0.04,
        "gspo/kl": 0.001 + 0.01 * progress,
        "logp_gap/mean": 0.004,
        "logp_gap/sd": 0.006,
        "ess": 0.92 * config.per_iteration / config.updates,
        "off_policy/mean": 0.0,
        "off_policy/max": 0.0,
        "off_policy/dropped": 0.0,
        "batch/trainable_frac": 0.95,
        "optim/lr": 1e-4,
        "optim/grad_norm": 0.5 + 0.1 * abs(float(noise[2])),
        "optim/skipped": 0.0,
        "entropy": max(0.05, 1.2 - 0.5 * progress),
        **times,
        "time/step": 0.4 + sum(times.values()),
        "throughput/gen_tokens_per_sec": 280 + 10 * float(noise[3]),
        "throughput/train_tokens_per_sec": 900 + 20 * float(noise[4]),
        "throughput/episodes_per_min": 130 + 4 * float(noise[3]),
        "trainer/idle_ratio": 0.2,
        "rollouter/idle_ratio": 0.1,
        "length/mean": length,
        "length/max": 2 * length,
        "length/truncated": 0.03,
        "turns/mean": float(config.turns),
    }


def system_metrics(random: np.random.Generator) -> dict[str, float]:
    """A sample of the machine."""
    noise = random.normal(0, 1, 2)
    util = [float(np.clip(mean + 0.05 * noise[0], 0, 1)) for mean in (0.8, 0.74)]
    return {
        "system/gpu_util": sum(util) / len(util),
        "system/gpu_mem": 0.88,
        "system/gpu_util_0": util[0],
        "system/gpu_util_1": util[1],
        "system/gpu_mem_0": 0.76,
        "system/gpu_mem_1": 0.88,
        "system/alloc_retries": 0.0,
        "system/cpu": float(np.clip(0.35 + 0.05 * noise[1], 0, 1)),
        "system/rss": 6.0e9,
        "system/disk_free_gib": 210.0,
    }


def pipeline_now(random: np.random.Generator, config: SynthConfig) -> dict[str, Any]:
    """The pipeline of status.json at one moment of training."""
    running, ready = (int(value) for value in random.integers(12, 32, 2))
    util = [float(value) for value in np.round(random.uniform(0.6, 0.98, 2), 2)]
    return {
        "running": running,
        "max": 32,
        "generating": running - running // 8,
        "judging": running // 8,
        "ready": min(ready, config.per_iteration),
        "need": config.per_iteration,
        "judge_in_flight": running // 8,
        "sync": "idle",
        "learner": "busy",
        "gpus": [
            {"index": 0, "role": "inference", "util": util[0], "used_bytes": 61 << 30, "total_bytes": 80 << 30},
            {"index": 1, "role": "learner", "util": util[1], "used_bytes": 70 << 30, "total_bytes": 80 << 30},
        ],
    }


def services_now(version: int) -> dict[str, Any]:
    """Gateway and engine of status.json, with the weights that the engine has."""
    engine = {"url": "http://127.0.0.1:8000", "kind": "vllm", "version": version, "state": "serving"}
    return {"gateway": {"url": "http://127.0.0.1:8801", "public_url": None}, "engines": [engine]}


def reward_metrics(rewards: list[float], group_size: int) -> dict[str, float]:
    """Metrics of the rewards of an iteration, whole groups one after the other."""
    groups = [rewards[at : at + group_size] for at in range(0, len(rewards), group_size)]
    spread = [max(group) - min(group) for group in groups]
    return {
        "reward/mean": float(np.mean(rewards)) if rewards else math.nan,
        "reward/std": float(np.std(rewards)) if rewards else math.nan,
        "reward/max": max(rewards, default=math.nan),
        "reward/outcome": float(np.mean(rewards)) if rewards else math.nan,
        "reward/frac_zero_std": sum(s <= 1e-6 for s in spread) / max(1, len(spread)),
        "reward/frac_all_good": sum(min(group) > 0.9 for group in groups) / max(1, len(groups)),
        "reward/frac_all_bad": sum(max(group) < 0.1 for group in groups) / max(1, len(groups)),
        "stop/completed": 0.97,
        "stop/max_tokens": 0.03,
    }


def turn_record(t: int, seed: int, member: int, reward: float | None, span: list[int], start: float) -> TurnRecord:
    return TurnRecord(
        t=t,
        calls=[t],
        messages=[
            {"role": "user", "text": f"Question {seed}, turn {t}: what is {seed} plus {t}?"},
            {"role": "assistant", "text": f"It is {seed + t}." + " Let me explain why." * (member % 4)},
        ],
        reward=reward,
        branch=0,
        span=span,
        finish_reason="stop",
        t_start=start,
        t_end=start + 0.8,
    )


def resolved_document(config: SynthConfig) -> dict[str, Any]:
    derived = {
        "E": config.per_iteration,
        "U": config.per_iteration // config.updates,
        "m": config.updates,
        "groups": config.groups,
        "iterations": config.iterations,
        "steps": config.iterations * config.updates,
    }
    document = {"schema": 1, "config_hash": "0" * 64, "values": {}, "warnings": [], "derived": derived}
    if config.judge:
        timeout = {"value": TIMEOUT_S, "origin": "default"}
        document |= {"values": {"judge": {"timeout_s": timeout}}, "effective_blend": WEIGHTS}
    return document
