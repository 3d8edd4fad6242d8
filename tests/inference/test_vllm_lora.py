"""Adapters on a real vLLM: one name updated in place, and a name per version. The tiny model in fp32."""

import asyncio
import copy
from pathlib import Path

import pytest
import pytest_asyncio
import torch
from peft import LoraConfig, get_peft_model

from tests.inference.conftest import random_prompt, reference_logprobs
from tests.inference.vllm_tools import complete, needs_vllm, vllm_engine
from trainer.inference.engine import EngineError, Sampling

pytestmark = [needs_vllm, pytest.mark.slow, pytest.mark.asyncio(loop_scope="module")]

RANK = 4  # vLLM is started for 8


def write_adapter(model: torch.nn.Module, folder: Path, seed: int) -> torch.nn.Module:
    """A random adapter in peft's own layout, and the model that it makes."""
    torch.manual_seed(seed)
    config = LoraConfig(r=RANK, lora_alpha=2 * RANK, target_modules="all-linear", task_type="CAUSAL_LM")
    adapted = get_peft_model(copy.deepcopy(model), config)
    with torch.no_grad():
        for name, parameter in adapted.named_parameters():
            if "lora_B" in name and seed:  # seed 0: as training begins, no change at all
                parameter.normal_(std=0.3)
    adapted.save_pretrained(folder)
    return adapted


@pytest.fixture(scope="module")
def adapters(hf, tmp_path_factory) -> list[tuple[Path, torch.nn.Module]]:
    root = tmp_path_factory.mktemp("adapters")
    return [(root / f"v{i}", write_adapter(hf, root / f"v{i}", i)) for i in range(4)]


async def started(tiny, folder: Path, *, versioned: bool):
    engine = vllm_engine(tiny, folder / "inference-0.log", sync="lora", lora_r=RANK, versioned=versioned, pins=True)
    await engine.start()
    return engine


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def in_place(tiny, tmp_path_factory):
    engine = await started(tiny, tmp_path_factory.mktemp("place"), versioned=False)
    yield engine
    await engine.stop()


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def versioned(tiny, tmp_path_factory):
    engine = await started(tiny, tmp_path_factory.mktemp("versions"), versioned=True)
    yield engine
    await engine.stop()


def largest_gap(tokens, logprobs, prompt, model, part=slice(None)) -> float:
    return (torch.tensor(logprobs) - reference_logprobs(model, prompt, tokens, 1.0)).abs()[part].max().item()


async def check(engine, adapters, version, seed=0, *, pinned=False) -> None:
    asked = version if pinned else None
    completion = await complete(engine, random_prompt(seed, 40), seed=seed, version=asked)
    assert completion.last.spans == [(0, len(completion.tokens), version)]
    assert largest_gap(completion.tokens, completion.logprobs, completion.prompt, adapters[version][1]) < 1e-3


async def start_long_call(engine, seed, tokens=450, version=None):
    """A call of so many tokens, once it has begun to give some."""
    begun, chunks = asyncio.Event(), []

    async def call():
        async for chunk in engine.generate(random_prompt(seed, 10), Sampling(1.0, tokens, seed=seed, version=version)):
            chunks.append(chunk)
            begun.set()
        return [t for c in chunks for t in c.token_ids], [p for c in chunks for p in c.logprobs], chunks[-1].spans

    task = asyncio.create_task(call())
    await begun.wait()
    return task


async def test_in_place_running_calls_get_the_new_adapter(in_place, adapters):
    for version in (0, 1):
        await in_place.load_weights(adapters[version][0], version)
        await check(in_place, adapters, version)
    crossed = 0
    for seed in range(10, 20):
        call = await start_long_call(in_place, seed)
        await in_place.load_weights(adapters[2][0], 2)
        tokens, logps, spans = await call
        if [version for _, _, version in spans] == [1, 2]:
            crossed, cut, prompt = 1, spans[0][1], random_prompt(seed, 10)
            assert largest_gap(tokens, logps, prompt, adapters[1][1], slice(0, cut)) < 1e-3
            assert largest_gap(tokens, logps, prompt, adapters[1][1], slice(cut, cut + 1)) > 1e-3
        await check(in_place, adapters, 2, seed)
        if crossed:
            break
        await in_place.load_weights(adapters[1][0], 1)
    assert crossed


async def test_an_adapter_that_does_not_fit_is_refused_and_the_engine_lives_on(in_place, hf, adapters, tmp_path):
    config = LoraConfig(r=16, target_modules=["q_proj"], task_type="CAUSAL_LM")
    get_peft_model(copy.deepcopy(hf), config).save_pretrained(tmp_path / "rank")
    with pytest.raises(EngineError, match="rank 16, the engine was started for 8"):
        await in_place.load_weights(tmp_path / "rank", 3)
    with pytest.raises(EngineError, match="adapter_config"):
        await in_place.load_weights(tmp_path, 3)
    await check(in_place, adapters, 2, 77)


async def test_in_place_a_pinned_version_is_played_while_newer_ones_are_loaded(in_place, adapters):
    await in_place.load_weights(adapters[1][0], 1)
    assert in_place.pins and await in_place.pin() == 1
    for version in (2, 3):
        running = await start_long_call(in_place, 30 + version, tokens=100, version=1)
        await in_place.load_weights(adapters[version][0], version)
        tokens, logps, spans = await running
        assert spans == [(0, len(tokens), 1)]
        assert largest_gap(tokens, logps, random_prompt(30 + version, 10), adapters[1][1]) < 1e-3
        await asyncio.gather(  # in one batch, and of one prompt: nothing of its computation may be shared
            check(in_place, adapters, 1, 40, pinned=True), check(in_place, adapters, version, 40)
        )
        assert in_place.serving_versions == {1, version}


async def test_in_place_a_restart_loads_the_current_adapter_and_the_pinned_one(in_place, adapters):
    in_place._process.child._process.kill()  # the server itself this time; its core must go with it
    await asyncio.sleep(0)
    await in_place._process.child.ended
    await check(in_place, adapters, 3, 5)
    await check(in_place, adapters, 1, 5, pinned=True)
    await in_place.unpin()
    assert in_place.serving_versions == {3}
    listed = (await in_place._client.call("GET", "/v1/models"))["data"]
    assert [model["id"] for model in listed] == ["base", "adapter"]


async def test_under_versioned_names_a_call_keeps_its_version(versioned, adapters):
    await versioned.load_weights(adapters[0][0], 0)
    await versioned.load_weights(adapters[1][0], 1)
    old = await start_long_call(versioned, 10)
    await versioned.load_weights(adapters[2][0], 2)
    assert versioned.serving_versions == {1, 2}
    await check(versioned, adapters, 2, 1)
    tokens, logps, spans = await old
    assert spans == [(0, len(tokens), 1)]
    assert largest_gap(tokens, logps, random_prompt(10, 10), adapters[1][1]) < 1e-3
    assert versioned.serving_versions == {2}


async def test_under_versioned_names_a_pinned_version_stays_until_it_is_let_go(versioned, adapters):
    assert await versioned.pin() == 2
    for version in (1, 3):  # numbers do not matter here
        await versioned.load_weights(adapters[version][0], version)
        await asyncio.gather(check(versioned, adapters, 2, 3, pinned=True), check(versioned, adapters, version, 3))
    assert versioned.serving_versions == {2, 3}
    await versioned.unpin()


async def test_versions_that_nothing_uses_are_unloaded(versioned, adapters):
    listed = (await versioned._client.call("GET", "/v1/models"))["data"]
    assert [model["id"] for model in listed] == ["base", "adapter-v3"]
    await check(versioned, adapters, 3, 2)
