"""Learner and engine as they are, in this process: the real forward passes and caches without their two processes.

Faults are put between the transport and the engine's weights.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Sequence
from pathlib import Path

import torch
from safetensors.torch import load_file, save_file

from trainer.inference.decoder import Decoder
from trainer.inference.engine import Chunk, Sampling
from trainer.inference.forward import load_forward
from trainer.inference.kv_cache import PrefixCache
from trainer.inference.weightfiles import WeightFiles
from trainer.learner import canary
from trainer.learner.client import SyncResult
from trainer.learner.policy import Policy
from trainer.learner.protocol import LearnerSettings
from trainer.models import ResolvedModel, load_tokenizer


def settings(model: ResolvedModel, mode: str, dtype: str, **changes: object) -> LearnerSettings:
    values = {
        "model": str(model.path),
        "trainer_mode": mode,
        "dtype": dtype,
        "seed": 0,
        "deterministic": False,
        "variety": "gspo",
        "anchor": "behavior",
        "clip_eps_low": 0.2,
        "clip_eps_high": 0.2,
        "loss_aggregation": "sequence_mean",
        "learning_rate": 1e-3,
        "lr_schedule": "constant",
        "warmup_steps": 0,
        "total_steps": 10,
        "weight_decay": 0.0,
        "max_grad_norm": 1.0,
        "max_seq_len": 512,
        "micro_batch_tokens": 2048,
        "gradient_checkpointing": False,
    }
    return LearnerSettings(**(values | changes))


class RigLearner:
    """`update` stands for an optimizer step: a random change of every trainable tensor."""

    def __init__(self, model: ResolvedModel, mode: str, dtype: str) -> None:
        self.policy, self.steps = Policy(settings(model, mode, dtype)), 0
        self._generator = torch.Generator().manual_seed(1)

    @torch.no_grad()
    def update(self, size: float) -> None:
        """`size`: in a tensor's own spread (full), or the spread of what is added (lora)."""
        for tensor in self.policy.trainable.values():
            scale = size if self.policy.lora else size * tensor.std()
            tensor.add_(torch.randn(tensor.shape, generator=self._generator) * scale)
        self.policy.refresh()
        self.steps += 1

    async def sync(self, path: Path, version: int, mode: str = "full") -> SyncResult:
        return SyncResult(bytes=self.policy.export(path), seconds=0.0, rounding_gap=0.0)

    async def canary(self, prefixes: list[bytes], candidates: list[bytes]) -> list[bytes]:
        return canary.answer(self.policy, {"prefixes": prefixes, "candidates": candidates})["result"]["logprobs"]


class RigEngine:
    """The local engine's decoding. `fault`: what becomes of new weights.

    skipped: the version is told, the weights stay. base: those of the model's own files are loaded. half: every other
    tensor is an old one. stale: what the prefix cache holds outlives its weights; stale_blocks: all but the last token,
    as in a cache of blocks.
    """

    kind, url, cache_block = "local", "", PrefixCache.MIN_SHARED

    def __init__(self, model: ResolvedModel, dtype: str, max_model_len: int) -> None:
        self.max_model_len, self.weight_version, self.fault = max_model_len, 0, ""
        self.faults_left = 1_000_000
        self._tokenizer = load_tokenizer(model.path)
        self._forward = load_forward(model.path, getattr(torch, dtype), max_model_len)
        self._base = load_file(model.path / "model.safetensors")
        self._decoder = Decoder(
            self._forward, eos_ids=(), max_model_len=max_model_len, max_num_seqs=64, decode_text=self._tokenizer.decode
        )
        self._waiting: dict[int, asyncio.Future[Chunk]] = {}
        self._next = 0
        self._last: dict[str, torch.Tensor] = {}
        self.ended: asyncio.Future[None] = asyncio.get_running_loop().create_future()

    @property
    def replicas(self) -> Sequence[RigEngine]:
        return (self,)

    @property
    def serving_versions(self) -> frozenset[int]:
        return frozenset({self.weight_version})

    async def tokenize(self, text: str) -> list[int]:
        return self._tokenizer.encode(text)

    async def generate(self, prompt_ids: Sequence[int], sampling: Sampling) -> AsyncIterator[Chunk]:
        self._next += 1
        id, self._waiting[self._next] = self._next, asyncio.get_running_loop().create_future()
        self._decoder.submit(id, prompt_ids, sampling)
        asyncio.get_running_loop().call_soon(self._decode)  # after all that is asked at once
        yield await self._waiting[id]

    @torch.inference_mode()
    def _decode(self) -> None:
        while self._decoder.busy:
            for item in self._decoder.step():
                chunk = Chunk([item.token], [item.logp], self.weight_version, item.finish, top=[item.top])
                self._waiting.pop(item.id).set_result(chunk)

    async def load_weights(self, path: Path, version: int) -> None:
        fault = self.fault if self.faults_left > 0 else ""
        self.faults_left -= bool(fault)
        self.weight_version = version
        new = load_file(path / "model.safetensors")
        if fault == "skipped":
            return
        if fault == "base":
            save_file({name: self._base[name] for name in new}, path / "model.safetensors")
        if fault == "half":
            old = self._last or self._base
            mixed = {n: new[n] if i % 2 else old[n].to(new[n].dtype) for i, n in enumerate(sorted(new))}
            save_file(mixed, path / "model.safetensors")
        cached = dict(self._decoder._prefixes._entries)
        with torch.inference_mode():
            self._decoder.swap(self._decoder.forward.updated(WeightFiles(path)), version)
        if fault.startswith("stale"):
            for entry in cached.values():
                whole = entry.hidden if fault == "stale" else None
                self._decoder._prefixes.put(entry.ids.tolist(), entry.kv, whole)
        if not fault:
            self._last = new
