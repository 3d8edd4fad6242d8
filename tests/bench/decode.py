"""Tokens per second of our decoder and of Hugging Face generate, by batch size, in the same process.

python tests/bench/decode.py --json [--model builtin:smollm2-135m] [--sizes 8,16,32,64] [--tokens 64]
"""

from __future__ import annotations

import argparse
import json
import os
import time

os.environ.setdefault("OMP_WAIT_POLICY", "PASSIVE")
os.environ.setdefault("KMP_BLOCKTIME", "0")

import torch

from trainer.inference.decoder import Decoder
from trainer.inference.engine import Sampling
from trainer.inference.forward import load_forward
from trainer.models import load_model, load_tokenizer, resolve_model

QUESTIONS = [
    "What is the capital of Greece?",
    "Who wrote Hamlet?",
    "How many legs has a spider?",
    "What is 7 + 5?",
]


def prompts(tokenizer, count: int) -> list[list[int]]:
    """Groups of eight share a prompt, as in training."""

    def ids(i: int) -> list[int]:
        question = f"{QUESTIONS[i // 8 % 4]} ({i // 32})"
        messages = [{"role": "user", "content": question}]
        return tokenizer.apply_chat_template(messages, add_generation_prompt=True, return_dict=False)

    return [ids(i) for i in range(count)]


def ours(decoder: Decoder, batch: list[list[int]], tokens: int) -> dict[str, float]:
    decoder.swap(decoder.forward, 0)  # forgets the prefixes
    for i, prompt in enumerate(batch):
        decoder.submit(i, prompt, Sampling(temperature=1.0, max_tokens=tokens, seed=i))
    start = time.perf_counter()
    count = len(decoder.step())
    first = time.perf_counter() - start
    while decoder.busy:
        count += len(decoder.step())
    seconds = time.perf_counter() - start
    return {
        "tok_s": count / seconds,
        "prefill_ms": first * 1e3,
        "step_ms": (seconds - first) / (tokens - 1) * 1e3,
    }


def generate(model: torch.nn.Module, batch: list[list[int]], tokens: int) -> dict[str, float]:
    width = max(map(len, batch))
    ids = torch.tensor([[0] * (width - len(p)) + p for p in batch])
    mask = torch.tensor([[0] * (width - len(p)) + [1] * len(p) for p in batch])
    start = time.perf_counter()
    with torch.inference_mode():
        model.generate(
            input_ids=ids,
            attention_mask=mask,
            do_sample=True,
            top_k=0,
            min_new_tokens=tokens,
            max_new_tokens=tokens,
        )
    return {"tok_s": len(batch) * tokens / (time.perf_counter() - start)}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--json", action="store_true")
    parser.add_argument("--model", default="builtin:smollm2-135m")
    parser.add_argument("--dtype", default="bfloat16")
    parser.add_argument("--sizes", default="8,16,32,64")
    parser.add_argument("--tokens", type=int, default=64)
    parser.add_argument("--no-hf", action="store_true")
    args = parser.parse_args()

    path, dtype = resolve_model(args.model).path, getattr(torch, args.dtype)
    tokenizer = load_tokenizer(path)
    sizes = [int(s) for s in args.sizes.split(",")]
    start = time.perf_counter()
    forward = load_forward(path, dtype, 512)
    load_s = time.perf_counter() - start
    # no end token: every sequence runs to its limit, so both sides do the same work
    decoder = Decoder(forward, eos_ids=(), max_model_len=512, max_num_seqs=max(sizes), decode_text=tokenizer.decode)
    model = None if args.no_hf else load_model(path, dtype)
    result: dict[str, object] = {
        "model": args.model,
        "dtype": args.dtype,
        "load_s": round(load_s, 2),
        "sizes": {},
    }
    for size in sizes:
        batch = prompts(tokenizer, size)
        ours(decoder, batch, 4)
        runs = [ours(decoder, batch, args.tokens) for _ in range(3)]
        entry = {"ours": max(runs, key=lambda r: r["tok_s"])}
        if model is not None:
            entry["hf"] = max((generate(model, batch, args.tokens) for _ in range(2)), key=lambda r: r["tok_s"])
            entry["ratio"] = {"tok_s": entry["ours"]["tok_s"] / entry["hf"]["tok_s"]}
        result["sizes"][size] = {k: {n: round(x, 1) for n, x in v.items()} for k, v in entry.items()}
        if not args.json:
            print(size, result["sizes"][size], flush=True)
    if args.json:
        print(json.dumps(result))


if __name__ == "__main__":
    main()
