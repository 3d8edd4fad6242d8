"""Both engines on the same prompts: generated tokens per second by calls in flight, and how far their
log-probabilities are from the learner's own forward pass.

python tests/bench/engines.py --json [--model builtin:smollm2-135m] [--sizes 1,16,64] [--tokens 60]

Prompts are short chats as in the demo (a group of eight shares one), 60 tokens are sampled for each, with 512 tokens
of context, at temperature 1. Speed is measured in bf16 through the Engine interface, as the gateway sees it;
|delta logp| in bf16 and in fp32.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import sys
import time
from collections.abc import Sequence

import numpy as np

from trainer.inference.engine import Engine, Sampling
from trainer.inference.local import LocalEngine
from trainer.inference.vllm.engine import VllmEngine
from trainer.inference.vllm.options import VllmSettings
from trainer.inference.vllm.process import is_installed, usable_cores
from trainer.models import ResolvedModel, resolve_model

Sample = tuple[list[int], list[int], list[float]]  # prompt, completion, log-probabilities

GROUP = 8
CONTEXT = 512


def questions(count: int) -> list[list[dict[str, str]]]:
    """One-question chats as the demo's task asks them, but of things to tell at length: a call runs to its limit. A
    group shares one."""
    topics = ["the history of Greece", "the life of Shakespeare", "how spiders live", "what numbers are good for"]
    return [
        [{"role": "user", "content": f"Tell me all that you know about {topics[i // GROUP % 4]}, part {i // 32 + 1}."}]
        for i in range(count)
    ]


def make(kind: str, model: ResolvedModel, dtype: str, in_flight: int) -> Engine:
    cores = usable_cores()
    if kind == "local":
        return LocalEngine(model, dtype=dtype, max_model_len=CONTEXT, max_num_seqs=in_flight, threads=len(cores))
    settings = VllmSettings(
        model=model.path,
        name=model.name,
        dtype=dtype,
        seed=0,
        max_model_len=CONTEXT,
        sync="none",
        cores=cores,
        max_num_seqs=in_flight,
    )
    return VllmEngine(model, settings)


async def play(engine: Engine, prompts: Sequence[list[int]], tokens: int, seed: int) -> list[Sample]:
    """(prompt, token ids, log-probabilities) of calls that are all in flight at once."""

    async def call(i: int) -> Sample:
        ids, logps = [], []
        async for chunk in engine.generate(prompts[i], Sampling(1.0, tokens, seed=seed + i)):
            ids += chunk.token_ids
            logps += chunk.logprobs
        return prompts[i], ids, logps

    return list(await asyncio.gather(*(call(i) for i in range(len(prompts)))))


async def measure(kind: str, model: ResolvedModel, dtype: str, sizes: list[int], tokens: int, speed: bool) -> dict:
    engine = make(kind, model, dtype, max(sizes))
    started = time.perf_counter()
    await engine.start()
    result: dict = {"start_s": time.perf_counter() - started, "tok_s": {}}
    try:
        prompts = [await engine.render(chat) for chat in questions(max(sizes))]
        samples = await play(engine, prompts, tokens, seed=0)  # warms up, and is what the gaps are taken of
        for size in sizes if speed else ():
            rates = []
            for repeat in range(2 if size > 1 else 1):
                begun, cpu = time.perf_counter(), time.process_time()
                done = await play(engine, prompts[:size], tokens, seed=1000 * (repeat + 1))
                seconds = time.perf_counter() - begun
                rates.append((sum(len(ids) for _, ids, _ in done) / seconds, (time.process_time() - cpu) / seconds))
            best = max(rates)
            result["tok_s"][size] = best[0]
            result.setdefault("coordinator_cpu", {})[size] = best[1]
    finally:
        await engine.stop()
    result["samples"], result["prompt_tokens"] = samples, float(np.mean([len(ids) for ids in prompts]))
    return result


def gaps(model: ResolvedModel, dtype: str, samples: list[Sample]) -> dict[str, float]:
    """|delta logp| between engine and learner: of tokens, and of a sequence's mean (what a GSPO ratio is made of)."""
    import torch

    from trainer.learner.batches import TrainSequence, pack
    from trainer.learner.policy import Policy
    from trainer.learner.protocol import LearnerSettings

    settings = LearnerSettings(
        model=str(model.path),
        trainer_mode="lora",  # its adapters are still zero
        dtype=dtype,
        seed=0,
        deterministic=False,
        variety="gspo",
        anchor="behavior",
        clip_eps_low=0.1,
        clip_eps_high=0.1,
        loss_aggregation="sequence_mean",
        learning_rate=1e-5,
        lr_schedule="constant",
        warmup_steps=0,
        total_steps=1,
        weight_decay=0.0,
        max_grad_norm=1.0,
        max_seq_len=CONTEXT,
        micro_batch_tokens=4096,
        gradient_checkpointing=False,
    )
    policy = Policy(settings)
    sequences = []
    for n, (prompt, ids, logps) in enumerate(samples):
        behaviour = np.zeros(len(prompt) + len(ids), np.float32)
        behaviour[len(prompt) :] = logps
        ones = np.ones(len(behaviour), np.float32)
        all_ids, mask = np.array(prompt + ids, np.int64), np.arange(len(ones)) >= len(prompt)
        sequences.append(TrainSequence(n, n // GROUP, all_ids, mask, behaviour, ones, 1.0, ones))
    tokens, means = [], []
    with torch.inference_mode():
        for batch in pack(sequences, 4096):
            logp = policy.token_logprobs(batch).logp
            delta = (logp - batch.anchor[batch.row, batch.column]).numpy()
            tokens.append(delta)
            means += [float(delta[batch.row.numpy() == b].mean()) for b in range(len(batch.rows))]
    token, mean = np.abs(np.concatenate(tokens)), np.abs(np.array(means))
    return {
        "tokens": len(token),
        "token_mean": float(token.mean()),
        "token_sd": float(np.concatenate(tokens).std()),
        "token_p99": float(np.quantile(token, 0.99)),
        "token_max": float(token.max()),
        "sequences": len(mean),
        "sequence_mean": float(mean.mean()),
        "sequence_max": float(mean.max()),
    }


def tables(report: dict) -> str:
    """Speed and |delta logp| as text."""
    lines = ["tokens/s in flight: " + "  ".join(f"{size:>7}" for size in report["sizes"])]
    for kind, found in report["engines"].items():
        lines.append(f"{kind:>18}: " + "  ".join(f"{found['tok_s'][size]:7.0f}" for size in report["sizes"]))
    columns = ("token_mean", "token_sd", "token_p99", "token_max", "sequence_mean", "sequence_max")
    lines.append(f"{'|delta logp|':>18}  " + "  ".join(f"{name:>13}" for name in columns))
    for kind, found in report["engines"].items():
        for dtype, values in found["gaps"].items():
            numbers = "  ".join(f"{values[name]:13.2e}" for name in columns)
            lines.append(f"{kind + ' ' + dtype:>18}  {numbers}")
    return "\n".join(lines)


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--model", default="builtin:smollm2-135m")
    parser.add_argument("--sizes", default="1,16,64")
    parser.add_argument("--tokens", type=int, default=60)
    parser.add_argument("--engines", default="local,vllm")
    parser.add_argument("--dtypes", default="bfloat16,float32", help="speed is measured in the first")
    parser.add_argument("--json", action="store_true")
    arguments = parser.parse_args()
    kinds = [kind for kind in arguments.engines.split(",") if kind != "vllm" or is_installed()]
    model = resolve_model(arguments.model)
    sizes, dtypes = [int(size) for size in arguments.sizes.split(",")], arguments.dtypes.split(",")
    report: dict = {"model": arguments.model, "tokens": arguments.tokens, "sizes": sizes, "engines": {}}
    for kind in kinds:
        report["engines"][kind] = {"gaps": {}}
        for dtype in dtypes:
            found = asyncio.run(measure(kind, model, dtype, sizes, arguments.tokens, speed=dtype == dtypes[0]))
            samples = found.pop("samples")
            report["engines"][kind] |= found if dtype == dtypes[0] else {}
            report["engines"][kind]["gaps"][dtype] = gaps(model, dtype, samples)
            print(f"{kind} {dtype} done", file=sys.stderr, flush=True)
    print(tables(report), file=sys.stderr if arguments.json else sys.stdout, flush=True)
    if arguments.json:
        print(json.dumps(report))
    return 0


if __name__ == "__main__":
    sys.exit(main())
