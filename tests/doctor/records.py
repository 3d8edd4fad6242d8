"""Records made by hand: one in which every rule has something to go by and is content, and changes of it."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from datetime import UTC, datetime
from math import sin
from typing import Any

from rltui.charts.pyramid import Pyramid
from rltui.doctor.bands import defaults
from rltui.doctor.doctor import Doctor
from rltui.doctor.record import Record
from rltui.doctor.rule import Reading, Rule
from rltui.doctor.rules import RULES

STEPS = 120
START = 1_750_000_000.0
STEP_S = 6.0
Values = Sequence[float] | float

BY_ID: dict[str, Rule] = {rule.id: rule for rule in RULES}

# An iteration is a step here: 32 episodes in 8 groups.
HEALTHY: dict[str, Values] = {
    "reward/mean": [0.2 + 0.004 * i + 0.02 * sin(7 * i) for i in range(STEPS)],
    "reward/env": [0.2 + 0.004 * i for i in range(STEPS)],
    "reward/outcome": [0.3 + 0.002 * i for i in range(STEPS)],
    "reward/frac_zero_std": 0.1,
    "reward/frac_all_good": 0.05,
    "reward/frac_all_bad": 0.05,
    "judge/agreement": 0.6,
    "judge/failed": 0.0,
    "judge/latency": 2.0,
    "entropy": [1.2 - 0.004 * i for i in range(STEPS)],
    "length/mean": [200 + 0.5 * i for i in range(STEPS)],
    "length/truncated": 0.01,
    "gspo/clip_frac_low": 0.05,
    "gspo/clip_frac_high": 0.05,
    "gspo/clip_noise_floor": 0.04,
    "gspo/ratio_min": 0.98,
    "gspo/ratio_max": 1.02,
    "gspo/ratio_out_of_band_frac": 0.01,
    "gspo/loss": 0.01,
    "logp_gap/mean": 0.015,
    "mismatch_kl/mean": 0.001,
    "ess": 27.0,
    "batch/trainable_frac": 0.9,
    "off_policy/max": 0.0,
    "off_policy/mean": 0.0,
    "off_policy/dropped": 0.0,
    "canary/failed": 0.0,
    "canary/slope": 1.0,
    "canary/residual": 0.01,
    "canary/undecided": 0.0,
    "optim/update_ratio": 1e-3,
    "optim/grad_norm": [1 + 0.2 * sin(i) for i in range(STEPS)],
    "optim/clipped_frac": 0.05,
    "optim/skipped": 0.0,
    "time/step": STEP_S,
    "time/wait_for_batch": 0.6,
    "time/wait_for_straggler": 0.1,
    "time/wait_for_eval": 0.0,
    "time/wait_for_policy": 0.3,
    "time/wait_for_judge": 0.1,
    "time/weight_sync": 0.2,
    "trainer/idle_ratio": 0.1,
    "rollouter/idle_ratio": 0.1,
    "tokens/clean": 90.0,
    "tokens/fork": 0.0,
    "tokens/realign": 1.0,
    "tokens/drift": 0.0,
    "tokens/sampling_forced": 0.0,
    "system/gpu_util": 0.8,
    "system/gpu_mem": 0.75,
    "system/alloc_retries": 0.0,
    "system/disk_free_gib": 200.0,
}
# By the step of the evaluated weights.
EVALUATIONS: dict[str, dict[int, float]] = {
    "eval/reward_mean": {0: 0.2, 60: 0.42, 120: 0.65},
    "eval/reward_std": {0: 0.4, 60: 0.45, 120: 0.45},
    "eval/episodes": {0: 200, 60: 200, 120: 200},
}
STATUS: dict[str, Any] = {
    "state": "running",
    "phase": "training",
    "step": STEPS,
    "iteration": STEPS,
    "weight_updates": STEPS,
    "heartbeat": START + STEPS * STEP_S + 10,
    "pipeline": {"judge_in_flight": 2, "judge_queued": 0},
}
CONFIG: dict[str, Any] = {
    "training.max_lag": 4,
    "training.group_size": 4,
    "training.weight_sync_interval": 1,
    "training.weight_sync.enable": True,
    "training.lora.dropout": 0.0,
    "policy.trainer_mode": "lora",
    "policy.top_p": 1.0,
    "policy.top_k": None,
    "policy.temperature": 1.0,
    "evaluation.temperature": 0.0,
    "evaluation.seeds": list(range(200)),
    "judge.timeout_s": 30.0,
    "judge.options.max_concurrency": 10,
}


def resolved(values: Mapping[str, Any] = CONFIG, **more: Any) -> dict[str, Any]:
    """resolved.json; a value may be a whole leaf."""
    tree: dict[str, Any] = {}
    for key, value in values.items():
        *sections, name = key.split(".")
        node = tree
        for section in sections:
            node = node.setdefault(section, {})
        node[name] = value if isinstance(value, dict) and "origin" in value else {"value": value, "origin": "file"}
    derived = {"E": 32, "U": 32, "m": 1, "groups": 8, "iterations": 200, "steps": 200}
    return {
        "values": tree,
        "warnings": [],
        "derived": derived,
        "effective_blend": {"env": 0.5, "event": 0.0, "outcome": 0.5},
        **more,
    }


def series(values: Values | Mapping[int, float], steps: int = STEPS) -> Pyramid:
    """By step, from 1; one number stands for all steps."""
    made = Pyramid()
    if isinstance(values, Mapping):
        made.extend(list(map(float, values)), list(values.values()))
    else:
        ys = [values] * steps if isinstance(values, int | float) else list(values)
        made.extend([float(i + 1) for i in range(len(ys))], ys)
    return made


def record(
    changes: Mapping[str, Values | Mapping[int, float] | None] | None = None,
    *,
    config: Mapping[str, Any] | None = None,
    status: Mapping[str, Any] | None = None,
    steps: int = STEPS,
    **more: Any,
) -> Record:
    """The healthy record with other series (None: without it), config keys, fields of the status."""
    wanted: dict[str, Any] = {**HEALTHY, **EVALUATIONS, **(changes or {})}
    made = {name: series(values) for name, values in wanted.items() if values is not None}
    last = datetime.fromtimestamp(START + STEPS * STEP_S, UTC).isoformat()
    events = [
        {
            "type": "rl.weight_sync",
            "created_at": last,
            "data": {"canary": {"slope": 1.0, "residual": 0.01, "noise": 0.008}},
        }
    ]
    healthy = Record(
        series=made,
        times=series([START + STEP_S * (i + 1) for i in range(STEPS)]),
        step=steps,
        status={**STATUS, **(status or {})},
        events=events,
        resolved=resolved({**CONFIG, **(config or {})}),
        environment={"model": {"parameters": 1_500_000_000}},
        judge_calls=[(i + 1, "") for i in range(STEPS)],
        walls=([2.0] * 60, [2.5] * 60),
        now=START + STEPS * STEP_S + 12,
    )
    return replace(healthy, **more)


def read(id: str, of: Record) -> Reading:
    """What one rule says at the moment, without the others."""
    rule = BY_ID[id]
    return rule.check(of, defaults()[id] if id in defaults() else {})


def states(of: Record) -> dict[str, str]:
    """By rule, as the doctor says."""
    return {finding.rule.id: str(finding.state) for finding in Doctor().examine(of)}
