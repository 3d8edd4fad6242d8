from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import aclosing, asynccontextmanager
from pathlib import Path

import pytest
import torch

from trainer.inference.decoder import Decoder, Item
from trainer.inference.engine import Sampling
from trainer.inference.forward import Forward, load_forward
from trainer.models import ResolvedModel, load_model, load_tokenizer, resolve_model


@pytest.fixture(scope="session", autouse=True)
def one_thread() -> None:
    torch.set_num_threads(1)


@pytest.fixture(scope="session")
def tiny() -> ResolvedModel:
    return resolve_model("builtin:tiny")


@pytest.fixture(scope="session")
def hf(tiny: ResolvedModel) -> torch.nn.Module:
    return load_model(tiny.path, torch.float32)


@pytest.fixture(scope="session")
def tokenizer(tiny: ResolvedModel):
    return load_tokenizer(tiny.path)


@pytest.fixture(scope="session")
def forward(tiny: ResolvedModel) -> Forward:
    return load_forward(tiny.path, torch.float32, 256)


@pytest.fixture
def make_decoder(forward: Forward, tokenizer):
    def make(**options: object) -> Decoder:
        defaults = {"eos_ids": (), "max_model_len": 256, "max_num_seqs": 8, "decode_text": tokenizer.decode}
        return Decoder(options.pop("forward", forward), **(defaults | options))

    return make


def run(decoder: Decoder, requests: dict[int, tuple[list[int], Sampling]]) -> dict[int, list[Item]]:
    """Submits all at once and decodes to the end."""
    for id, (prompt, sampling) in requests.items():
        decoder.submit(id, prompt, sampling)
    return drain(decoder)


def drain(decoder: Decoder) -> dict[int, list[Item]]:
    items: dict[int, list[Item]] = {}
    while decoder.busy:
        for item in decoder.step():
            items.setdefault(item.id, []).append(item)
    return items


def tokens(items: list[Item]) -> list[int]:
    return [item.token for item in items]


def random_prompt(seed: int, length: int) -> list[int]:
    generator = torch.Generator().manual_seed(seed)
    return torch.randint(0, 256, (length,), generator=generator).tolist()


def reference_logprobs(model: torch.nn.Module, prompt: list[int], completion: list[int], temperature: float):
    """A fresh forward pass of transformers over the whole sequence, no cache."""
    with torch.inference_mode():
        logits = model(torch.tensor([prompt + completion])).logits[0, len(prompt) - 1 : -1].float()
    logp = (logits / temperature).log_softmax(-1)
    return logp.gather(1, torch.tensor(completion).unsqueeze(1)).squeeze(1)


@asynccontextmanager
async def held(engine, after: int = 1) -> AsyncIterator[asyncio.Event]:
    """Its calls get that many tokens, and the rest once the event is set: else one may be over before it is looked
    at, on a machine that stands still."""
    go_on, generate = asyncio.Event(), engine.generate

    async def some(*args, **options):
        count = 0
        async with aclosing(generate(*args, **options)) as chunks:
            async for chunk in chunks:
                if count >= after:
                    await go_on.wait()
                count += len(chunk.token_ids)
                yield chunk

    engine.generate = some
    try:
        yield go_on
    finally:
        go_on.set()
        engine.generate = generate


def write_update(folder: Path, model: torch.nn.Module, names: list[str], scale: float = 1.5) -> dict[str, torch.Tensor]:
    from safetensors.torch import save_file

    generator = torch.Generator().manual_seed(1)
    parameters = dict(model.named_parameters())
    update = {
        n: parameters[n].detach() + 0.05 * scale * torch.randn(parameters[n].shape, generator=generator) for n in names
    }
    folder.mkdir(exist_ok=True)
    save_file(update, folder / "model.safetensors")
    return update
