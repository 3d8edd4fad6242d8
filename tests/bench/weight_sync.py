"""How long new weights take to the engine: written by the learner, loaded, confirmed; and with the canary's check.

python -m tests.bench.weight_sync [--json] [--model builtin:smollm2-135m] [--repeats 3] [--only vllm:lora]

lora: an adapter of rank 16 as a file; merged: the layers that it changes, merged; full: all weights, all trained.
Learner and engine are the processes of a run, here on the CPU, and calls are running meanwhile. `verified_seconds` is a
sync and the canary after it. The weights are those of the start, sent again: their values do not matter here.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import statistics
import sys
import tempfile
from pathlib import Path

from tests.weights.rig import settings
from trainer.inference.engine import Engine, EngineError, Sampling
from trainer.inference.local import LocalEngine
from trainer.inference.vllm.engine import VllmEngine
from trainer.inference.vllm.options import VllmSettings
from trainer.inference.vllm.process import is_installed, usable_cores
from trainer.learner.client import LearnerProcess
from trainer.models import ResolvedModel, resolve_model
from trainer.weights.base import WeightSync
from trainer.weights.lora import LoraSync
from trainer.weights.slots import SlotSync
from trainer.weights.verified import VerifiedSync

CASES = ("local:merged", "local:full", "vllm:merged", "vllm:full", "vllm:lora")
CALLS, CONTEXT = 8, 512


def make(kind: str, mode: str, model: ResolvedModel) -> Engine:
    cores = usable_cores()
    if kind == "local":
        return LocalEngine(model, dtype="bfloat16", max_model_len=CONTEXT, max_num_seqs=64, threads=len(cores))
    chosen = VllmSettings(
        model=model.path,
        name=model.name,
        dtype="bfloat16",
        seed=0,
        max_model_len=CONTEXT,
        sync="lora" if mode == "lora" else "full",
        cores=cores,
        max_num_seqs=64,
    )
    return VllmEngine(model, chosen)


async def keep_busy(engine: Engine, seed: int) -> None:
    """One call after another, as training asks them."""
    prompt = await engine.tokenize("Tell me all that you know about the history of Greece.")
    while True:
        try:
            async for _ in engine.generate(prompt, Sampling(1.0, CONTEXT - len(prompt) - 1, seed=seed)):
                pass
        except EngineError:
            return
        seed += CALLS


async def measure(kind: str, mode: str, model: ResolvedModel, folder: Path, repeats: int) -> dict[str, object]:
    engine = make(kind, mode, model)
    trained = "full" if mode == "full" else "lora"
    learner = LearnerProcess(settings(model, trained, "bfloat16"), threads=len(usable_cores()), sink=lambda line: None)
    calls: list[asyncio.Task[None]] = []
    transport: WeightSync = (LoraSync if mode == "lora" else SlotSync)(learner, engine, folder)
    sync = VerifiedSync(transport, engine, learner, 1)
    try:
        await asyncio.gather(engine.start(), learner.start(600.0))
        await sync.start(0)
        calls = [asyncio.create_task(keep_busy(engine, i)) for i in range(CALLS)]
        plain, verified, sent = [], [], 0
        for repeat in range(repeats):
            report = await transport.sync(2 * repeat + 1)
            sent = report.bytes
            plain.append(report.seconds)
            learner.steps += 1  # a canary is due
            verified.append((await sync.sync(2 * repeat + 2)).seconds)
        return {
            "engine": kind,
            "mode": mode,
            "bytes": sent,
            "seconds": statistics.median(plain),
            "verified_seconds": statistics.median(verified),
        }
    finally:
        for call in calls:
            call.cancel()
        await asyncio.gather(*calls, return_exceptions=True)
        await asyncio.gather(learner.stop(), engine.stop())
        sync.close()


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--json", action="store_true")
    parser.add_argument("--model", default="builtin:smollm2-135m")
    parser.add_argument("--repeats", type=int, default=3)
    parser.add_argument("--only", choices=CASES)
    arguments = parser.parse_args()
    model, rows = resolve_model(arguments.model), []
    for case in (arguments.only,) if arguments.only else CASES:
        kind, mode = case.split(":")
        if kind == "vllm" and not is_installed():
            continue
        with tempfile.TemporaryDirectory() as folder:
            rows.append(asyncio.run(measure(kind, mode, model, Path(folder), arguments.repeats)))
        row = rows[-1]
        print(
            f"{kind:>6} {mode:>6} {row['bytes'] / 2**20:8.1f} MiB {row['seconds']:8.2f} s, "
            f"with the canary {row['verified_seconds']:8.2f} s",
            file=sys.stderr if arguments.json else sys.stdout,
            flush=True,
        )
    if arguments.json:
        print(json.dumps(rows))
    return 0


if __name__ == "__main__":
    sys.exit(main())
