"""What the tests with a real vLLM share. Without vLLM they are skipped, unless RLTUI_REQUIRE_VLLM=1: then they fail."""

from __future__ import annotations

import asyncio
import os
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import psutil
import pytest
import torch

from trainer.inference.engine import Chunk, Engine, Sampling
from trainer.inference.vllm.engine import VllmEngine
from trainer.inference.vllm.options import VllmSettings
from trainer.inference.vllm.process import is_installed, usable_cores
from trainer.models import ResolvedModel

needs_vllm = pytest.mark.skipif(
    not is_installed() and os.environ.get("RLTUI_REQUIRE_VLLM") != "1", reason="vLLM is not installed"
)
START_S = 400.0


def vllm_engine(model: ResolvedModel, log: Path, **settings: object) -> VllmEngine:
    """Not started. fp32 on all cores, 512 tokens of context, unless said otherwise."""
    defaults = {"dtype": "float32", "seed": 0, "max_model_len": 512, "sync": "full", "max_num_seqs": 16}
    chosen = VllmSettings(model=model.path, name=model.name, cores=usable_cores(), **(defaults | settings))
    return VllmEngine(model, chosen, startup_timeout_s=START_S, sink=lambda line: _append(log, line))


def _append(log: Path, line: bytes) -> None:
    with log.open("ab") as file:
        file.write(line)


@dataclass
class Completion:
    prompt: list[int]
    sampling: Sampling
    chunks: list[Chunk]

    @property
    def tokens(self) -> list[int]:
        return [token for chunk in self.chunks for token in chunk.token_ids]

    @property
    def logprobs(self) -> torch.Tensor:
        return torch.tensor([logp for chunk in self.chunks for logp in chunk.logprobs])

    @property
    def last(self) -> Chunk:
        return self.chunks[-1]


async def complete(engine: Engine, prompt: Sequence[int], temperature: float = 1.0, **sampling: object) -> Completion:
    chosen = Sampling(temperature, **({"max_tokens": 40, "seed": 0} | sampling))
    done = Completion(list(prompt), chosen, [])
    async for chunk in engine.generate(prompt, chosen):
        done.chunks.append(chunk)
    return done


async def until(condition, timeout_s: float = 60.0) -> None:
    """Waits for a condition that another process brings about."""
    async with asyncio.timeout(timeout_s):
        while not condition():  # noqa: ASYNC110 - the state of another process has no event
            await asyncio.sleep(0.05)


def group_members(leader: int) -> list[psutil.Process]:
    """Living processes of the group that `leader` leads or led."""
    members = []
    for process in psutil.process_iter():
        try:
            if os.getpgid(process.pid) == leader and process.status() != psutil.STATUS_ZOMBIE:
                members.append(process)
        except (ProcessLookupError, psutil.NoSuchProcess, PermissionError):
            continue
    return members


def core_of(engine: VllmEngine) -> psutil.Process:
    """The process that holds the model: the largest of the group but its leader."""
    assert engine.pid is not None
    others = [process for process in group_members(engine.pid) if process.pid != engine.pid]
    return max(others, key=lambda process: process.memory_info().rss)
