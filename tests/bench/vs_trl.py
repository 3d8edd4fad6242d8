"""Training against TRL set to GSPO, on the demo's task: interleaved runs, samples a second, time to a reward, memory.

    python tests/bench/vs_trl.py --json [--seeds 0,1,2] [--steps 6] [--target 0.2]

Both sides train the same model by LoRA r 16, bf16, on groups of 8 of the same facts, 32 sequences of up to 20 tokens
a step, at the same rate and clip range. Each run is a process of its own; its first step (warm-up) is not counted as
speed. `trl_tuned` is TRL with what helps any peer on a CPU: a contiguous hidden state for the frozen lm_head, and
tcmalloc where the machine has it. Time to reward: seconds of training, the first step among them and the loading of
programs and model not, until three steps in a row have a mean reward of at least --target; null: never.
Both sides' steps are timed by the clock on the wall, from the end of one to that of the next. `where` is what ours go
to: shares of that time, by what the run records, generation being what the learner waits for.
Prints, last, {ours, trl, trl_tuned, ratio, ratio_tuned, rss_ratio, rss_mb, where, to_reward, rewards}; a list has a
place for each seed, `to_reward` [steps, seconds] in it.
"""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
import tempfile
from ctypes.util import find_library
from itertools import pairwise
from pathlib import Path
from statistics import fmean, median
from typing import Any

ROOT = Path(__file__).parents[2]
SIDES = ("ours", "trl", "trl_tuned")
EPISODES, GROUP, TOKENS = 32, 8, 20
PARTS = {  # of a step of ours: the metrics whose seconds it is
    "generation": ("time/wait_for_batch", "time/wait_for_straggler"),
    "forward_backward": ("time/forward_backward",),
    "weight_sync": ("time/weight_sync",),
}
IN_A_ROW = 3  # steps whose mean reward is held against the target

Run = dict[str, Any]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--json", action="store_true", help="print the result alone")
    parser.add_argument("--seeds", default="0,1")
    parser.add_argument("--steps", type=int, default=6)
    parser.add_argument("--target", type=float, default=0.2, help="the mean reward whose time is taken")
    parser.add_argument("--side", choices=SIDES, help=argparse.SUPPRESS)
    options = parser.parse_args()
    seeds = [int(seed) for seed in options.seeds.split(",")]
    if options.side:
        print(json.dumps(measure(options.side, options.steps, seeds[0])))
        return
    runs: dict[str, list[Run]] = {side: [] for side in SIDES}
    for i, seed in enumerate(seeds):
        for side in SIDES if i % 2 == 0 else reversed(SIDES):
            run = in_its_own_process(side, options.steps, seed)
            runs[side].append(run)
            if not options.json:
                print(
                    f"seed {seed}  {side:10} {run['samples_per_sec']:.2f} samples/s  {run['rss_mb']:.0f} MB  "
                    f"to reward {options.target:g}: {time_to(options.target, run)}",
                    flush=True,
                )
    speed = {side: median(run["samples_per_sec"] for run in runs[side]) for side in SIDES}
    memory = {side: median(run["rss_mb"] for run in runs[side]) for side in SIDES}
    result = {
        **{side: round(value, 2) for side, value in speed.items()},
        "ratio": round(speed["ours"] / speed["trl"], 2),
        "ratio_tuned": round(speed["ours"] / speed["trl_tuned"], 2),
        "rss_ratio": round(memory["ours"] / memory["trl"], 2),
        "rss_mb": {side: round(value) for side, value in memory.items()},
        "where": {name: round(median(run["where"][name] for run in runs["ours"]), 3) for name in (*PARTS, "rest")},
        "to_reward": {side: [time_to(options.target, run) for run in runs[side]] for side in SIDES},
        "rewards": {side: [[round(r, 3) for r in run["rewards"]] for run in runs[side]] for side in SIDES},
    }
    print(json.dumps(result))


def time_to(target: float, run: Run) -> tuple[int, float] | None:
    """Steps and seconds until the first `IN_A_ROW` steps whose mean reward is at least `target` have ended."""
    for end in range(IN_A_ROW, len(run["rewards"]) + 1):
        if fmean(run["rewards"][end - IN_A_ROW : end]) >= target:
            return end, round(sum(run["seconds"][:end]), 1)
    return None


def in_its_own_process(side: str, steps: int, seed: int) -> Run:
    env = dict(os.environ, TOKENIZERS_PARALLELISM="false")
    allocator = find_library("tcmalloc_minimal")
    if side == "trl_tuned" and allocator:
        env["LD_PRELOAD"] = allocator
    done = subprocess.run(
        [sys.executable, __file__, "--side", side, "--steps", str(steps), "--seeds", str(seed)],
        capture_output=True,
        text=True,
        env=env,
        cwd=ROOT,
    )
    if done.returncode:
        sys.exit(f"{side} failed:\n{done.stderr[-3000:]}")
    return json.loads(done.stdout.strip().splitlines()[-1])


def measure(side: str, steps: int, seed: int) -> Run:
    """{samples_per_sec, rss_mb, rewards, seconds}; the lists have a place for each step. Ours: {where} beside them."""
    return ours(steps, seed) if side == "ours" else trl(steps, seed, tuned=side == "trl_tuned")


def ours(steps: int, seed: int) -> Run:
    """The main job as a user runs it, with all its processes, HTTP and records."""
    with tempfile.TemporaryDirectory() as folder:
        run_dir = Path(folder) / "run"
        command = [
            sys.executable,
            "-m",
            "trainer",
            "run",
            "sample_configs/demo.toml",
            "--run-dir",
            str(run_dir),
        ]
        sets = [
            f"rollout.episodes_per_batch={EPISODES}",
            f"training.batch_size={EPISODES}",
            f"training.group_size={GROUP}",
            f"policy.max_tokens={TOKENS}",
            "training.learning_rate=1e-3",
            "training.lr_schedule=constant",
            f"training.iterations_per_epoch={steps}",
            f"training.seed={seed}",
            "evaluation.instances=1",
            "evaluation.seeds=[160]",
        ]
        subprocess.run([*command, *(part for s in sets for part in ("--set", s))], check=True, capture_output=True)
        lines = [json.loads(line) for line in (run_dir / "metrics.jsonl").read_text().splitlines()]
        steps_done = [line for line in lines if "throughput/samples_per_sec" in line]
        seconds = [EPISODES / line["throughput/samples_per_sec"] for line in steps_done]
        rewards = [line["reward/mean"] for line in lines if "reward/mean" in line]
        status = json.loads((run_dir / "status.json").read_text())
    total = sum(seconds[1:])
    where = {name: sum(line.get(m, 0.0) for line in steps_done[1:] for m in own) / total for name, own in PARTS.items()}
    return {
        "where": where | {"rest": 1.0 - sum(where.values())},
        "samples_per_sec": EPISODES * len(seconds[1:]) / total,
        "rss_mb": status["results"]["peak_rss_mb"],
        "rewards": rewards,
        "seconds": seconds,
    }


def trl(steps: int, seed: int, *, tuned: bool) -> Run:
    import resource
    import time

    import torch
    from datasets import Dataset
    from peft import LoraConfig
    from transformers import TrainerCallback
    from trl import GRPOConfig, GRPOTrainer

    from trainer.models import load_model, load_tokenizer, resolve_model
    from trainer.taskapp.builtin.facts import INSTRUCTION, TRAIN, score

    path = resolve_model("builtin:smollm2-135m").path
    model, tokenizer = load_model(path, "bfloat16"), load_tokenizer(path)
    if tuned:
        project = model.lm_head.forward
        model.lm_head.forward = lambda hidden: project(hidden.contiguous())
    prompts = [
        {
            "prompt": [{"role": "user", "content": f"{INSTRUCTION} {fact.question}"}],
            "accepted": list(fact.accepted),
        }
        for fact in TRAIN
    ]

    rewards: list[float] = []

    def reward(completions, completion_ids, accepted, **_: object) -> list[float]:
        found = [
            score(said[0]["content"], right, len(ids) >= TOKENS and ids[-1] != tokenizer.eos_token_id)
            for said, ids, right in zip(completions, completion_ids, accepted, strict=True)
        ]
        rewards.append(fmean(found))
        return found

    ends: list[float] = []

    class Clock(TrainerCallback):
        def on_train_begin(self, *_: object, **__: object) -> None:
            ends.append(time.monotonic())

        def on_step_end(self, *_: object, **__: object) -> None:
            ends.append(time.monotonic())

    with tempfile.TemporaryDirectory() as folder:
        config = GRPOConfig(
            output_dir=folder,
            use_cpu=True,
            bf16=True,
            importance_sampling_level="sequence",
            loss_type="grpo",
            beta=0.0,
            epsilon=0.1,
            learning_rate=1e-3,
            lr_scheduler_type="constant",
            per_device_train_batch_size=EPISODES,
            gradient_accumulation_steps=1,
            num_generations=GROUP,
            max_completion_length=TOKENS,
            temperature=1.0,
            max_steps=steps,
            gradient_checkpointing=False,
            logging_strategy="no",
            save_strategy="no",
            report_to=[],
            disable_tqdm=True,
            seed=seed,
        )
        lora = LoraConfig(r=16, lora_alpha=32, target_modules="all-linear", task_type="CAUSAL_LM")
        torch.manual_seed(seed)
        trainer = GRPOTrainer(
            model=model,
            reward_funcs=reward,
            args=config,
            train_dataset=Dataset.from_list(prompts),
            processing_class=tokenizer,
            peft_config=lora,
            callbacks=[Clock()],
        )
        trainer.train()
    rss = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024
    seconds = [end - begin for begin, end in pairwise(ends)]
    speed = EPISODES * len(seconds[1:]) / sum(seconds[1:])
    return {"samples_per_sec": speed, "rss_mb": rss, "rewards": rewards, "seconds": seconds}


if __name__ == "__main__":
    main()
