"""In-flight updates against our own synchronous loop, same samples: speed, and what is learned.

    python tests/bench/own_loop.py [--json] [--sleep 2] [--seeds 0,1,2] [--iterations 24] [--every 6]
                                   [--tiny] [--learning-rate 5e-5]

The demo's model, task and rates with 32 episodes an iteration. `synchronous` is max_lag 0, `in-flight` max_lag 4;
nothing else differs, and the runs of a seed follow each other. The demo's rate is tuned for max_lag 0: its first update
alone moves the policy by more than the clip range, and what is older than that teaches little. --tiny: a random model
of 1M parameters learns the task of letters.py, all of its weights, at a constant rate: cheap enough for curves at
several rates. --sleep: seconds that the task app's environment takes
in each turn; there overlap is real, while on a CPU engine and learner share the cores. Each run is as a user runs it.

Rows {mode, seed, samples_per_sec, trainer_idle, lag_mean, peak_rss_mb, eval}; eval: held-out means after 0, every, ...
iterations. samples_per_sec is by the clock on the wall, from the end of a step to that of the next; it leaves out the
first two steps, and evaluations that nothing is played beside.
"""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
import tempfile
from pathlib import Path
from statistics import mean
from typing import Any

ROOT = Path(__file__).parents[2]
MODES = {"synchronous": 0, "in-flight": 4}
TINY = {
    "policy.model_name": "builtin:tiny",
    "policy.trainer_mode": "full",
    "services.task_url": Path(__file__).with_name("letters.py"),
    "vllm.max_model_len": 256,
    "training.dtype": "float32",
    "training.lr_schedule": "constant",
    "evaluation.temperature": 1.0,
}
EPISODES = 32
WARM_UP = 2  # steps


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--json", action="store_true", help="print the rows and their summary alone, as JSON")
    parser.add_argument("--sleep", type=float, default=0.0, metavar="S", help="seconds of the environment a turn")
    parser.add_argument("--seeds", default="0,1,2")
    parser.add_argument("--iterations", type=int, default=24)
    parser.add_argument("--every", type=int, default=6, help="iterations between evaluations; 0: first and last only")
    parser.add_argument("--tiny", action="store_true", help="a random model and an easy task")
    parser.add_argument("--learning-rate", type=float, help="instead of the demo's")
    options = parser.parse_args()
    sets: dict[str, Any] = TINY if options.tiny else {}
    if options.learning_rate is not None:
        sets = {**sets, "training.learning_rate": options.learning_rate}
    rows = []
    for seed in map(int, options.seeds.split(",")):
        for mode in MODES:
            rows.append(measure(mode, seed, options.sleep, options.iterations, options.every, sets))
            if not options.json:
                print(json.dumps(rows[-1]), flush=True)
    print(json.dumps({"rows": rows, "summary": summary(rows)}))


def measure(mode: str, seed: int, sleep: float, iterations: int, every: int, sets: dict[str, Any]) -> dict[str, Any]:
    sets = {
        **sets,
        "rollout.episodes_per_batch": EPISODES,
        "rollout.max_concurrent_rollouts": 2 * EPISODES,
        "training.batch_size": EPISODES,
        "training.iterations_per_epoch": iterations,
        "training.max_lag": MODES[mode],
        "training.seed": seed,
        "evaluation.every_n_iters": every,
    }
    if sleep:
        sets["services.task_url"] = Path(__file__).with_name("slow_facts.py")
    with tempfile.TemporaryDirectory() as folder:
        run_dir = Path(folder) / "run"
        command = [sys.executable, "-m", "trainer", "run", "sample_configs/demo.toml", "--run-dir", str(run_dir)]
        given = [part for key, value in sets.items() for part in ("--set", f"{key}={value}")]
        env = dict(os.environ, SLOW_FACTS_S=str(sleep))
        done = subprocess.run([*command, *given], capture_output=True, text=True, env=env, cwd=ROOT)
        if done.returncode:
            sys.exit(f"{mode}, seed {seed} failed:\n{done.stdout[-2000:]}\n{done.stderr[-2000:]}")
        steps = _lines(run_dir / "metrics.jsonl")
        status = json.loads((run_dir / "status.json").read_text())
    timed = [line for line in steps if "time/step" in line][WARM_UP:]
    evaluations = {line["iteration"]: line["eval/reward_mean"] for line in steps if "eval/reward_mean" in line}
    return {
        "mode": mode,
        "seed": seed,
        "samples_per_sec": round(len(timed) / sum(1 / line["throughput/samples_per_sec"] for line in timed), 2),
        "trainer_idle": round(mean(line["trainer/idle_ratio"] for line in timed if "trainer/idle_ratio" in line), 3),
        "lag_mean": round(mean(line["off_policy/mean"] for line in timed), 2),
        "peak_rss_mb": status["results"]["peak_rss_mb"],
        "eval": [round(evaluations[iteration], 4) for iteration in sorted(evaluations)],
    }


def summary(rows: list[dict[str, Any]]) -> dict[str, Any]:
    """Means over the seeds, and the ratio of speeds."""
    found: dict[str, Any] = {}
    for mode in MODES:
        own = [row for row in rows if row["mode"] == mode]
        curves = zip(*(row["eval"] for row in own), strict=True)
        found[mode] = {
            "samples_per_sec": round(mean(row["samples_per_sec"] for row in own), 2),
            "eval": [round(mean(values), 4) for values in curves],
        }
    speeds = [found[mode]["samples_per_sec"] for mode in ("in-flight", "synchronous")]
    return {**found, "speed_ratio": round(speeds[0] / speeds[1], 2)}


def _lines(path: Path) -> list[dict[str, Any]]:
    return [json.loads(line) for line in path.read_text().splitlines()]


if __name__ == "__main__":
    main()
