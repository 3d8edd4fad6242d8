"""The vLLM engine with a real server: the tiny model in fp32, one server for the whole module, a killed core last."""

import asyncio
import copy
import itertools
import json
import os
import signal
from contextlib import aclosing
from dataclasses import replace
from pathlib import Path

import httpx
import pytest
import pytest_asyncio
import torch
from safetensors.torch import save_file

from tests.inference.conftest import random_prompt, reference_logprobs, write_update
from tests.inference.vllm_tools import complete, core_of, group_members, needs_vllm, vllm_engine
from trainer.inference.engine import ContextOverflow, EngineError, Sampling
from trainer.inference.gateway import Gateway
from trainer.inference.ledger import CallPolicy
from trainer.inference.vllm import updates

pytestmark = [needs_vllm, pytest.mark.asyncio(loop_scope="module")]

UPDATED = ["model.layers.0.self_attn.q_proj.weight", "model.layers.2.mlp.down_proj.weight"]
UPDATED += ["model.embed_tokens.weight"]  # which is the head, too


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def engine(tiny, tmp_path_factory):
    engine = vllm_engine(tiny, tmp_path_factory.mktemp("vllm") / "inference-0.log")
    await engine.start()
    yield engine
    await engine.stop()


@pytest.fixture(scope="module")
def update(hf, tmp_path_factory) -> tuple[Path, torch.nn.Module]:
    """A folder with new weights for two layers only, and the whole model with them."""
    folder = tmp_path_factory.mktemp("update")
    tensors = write_update(folder, hf, UPDATED, scale=3.0)
    model = copy.deepcopy(hf)
    model.load_state_dict(tensors, strict=False)
    return folder, model


def largest_gap(completion, model) -> float:
    reference = reference_logprobs(model, completion.prompt, completion.tokens, completion.sampling.temperature)
    return (completion.logprobs - reference).abs().max().item()


async def test_logprobs_are_those_of_a_fresh_forward_pass_at_every_temperature(engine, hf):
    calls = [
        complete(engine, random_prompt(i, 5 + 30 * i), temperature, seed=i)
        for i, temperature in enumerate([0.5, 1.0, 1.3, 0.5, 1.0, 1.3])
    ]
    for completion in await asyncio.gather(*calls):
        assert len(completion.tokens) > 1
        assert largest_gap(completion, hf) < 1e-3


async def test_a_chat_is_rendered_to_the_ids_of_its_template(engine, tokenizer):
    messages = [
        {"role": "system", "content": "be brief"},
        {"role": "user", "content": "hi"},
        {"role": "assistant", "content": "hello"},
        {"role": "user", "content": [{"type": "text", "text": "and?"}]},
    ]
    plain = [{**m, "content": m["content"] if isinstance(m["content"], str) else "and?"} for m in messages]
    expected = tokenizer.apply_chat_template(plain, add_generation_prompt=True, return_dict=False)
    assert await engine.render(messages) == expected
    assert await engine.render(messages) == expected  # from the cache
    open_end = tokenizer.apply_chat_template(plain[:3], add_generation_prompt=False, return_dict=False)
    assert await engine.render(messages[:3], None, {"add_generation_prompt": False}) == open_end


async def test_tool_calls_are_read_by_the_parser_of_the_template(engine, tokenizer):
    tools = [{"type": "function", "function": {"name": "look", "parameters": {"type": "object", "properties": {}}}}]
    assert "look" in engine.decode(await engine.render([{"role": "user", "content": "x"}], tools))
    text = 'so <tool_call>\n{"name": "look", "arguments": {"at": 1}}\n</tool_call>'
    reply = await engine.derender(tokenizer.encode(text), tools)
    assert [call["function"]["name"] for call in reply.tool_calls] == ["look"]
    assert json.loads(reply.tool_calls[0]["function"]["arguments"]) == {"at": 1}
    assert (await engine.derender(tokenizer.encode(text))).text == text  # none were offered


async def test_seeds_repeat_and_differ(engine):
    prompt = random_prompt(1, 20)
    first, again, other = [await complete(engine, prompt, seed=seed) for seed in (2**62 + 5, 2**62 + 5, 7)]
    assert first.tokens == again.tokens != other.tokens


async def test_more_prompt_tokens_at_once_than_one_step_takes(engine):
    """vLLM on a CPU ends when it splits the prompt of a call with a seed."""
    calls = [complete(engine, random_prompt(i, 480), max_tokens=3, seed=i) for i in range(16)]
    assert {len(c.tokens) for c in await asyncio.gather(*calls)} <= {1, 2, 3}


async def test_a_stop_string_ends_the_call_with_its_tokens_kept(engine):
    prompt = random_prompt(2, 20)
    free = await complete(engine, prompt, max_tokens=60)
    at = next(i for i, token in enumerate(free.tokens) if i > 5 and 32 < token < 90 and token not in free.tokens[:i])
    stop = engine.decode([free.tokens[at]])
    stopped = await complete(engine, prompt, max_tokens=60, stop=("never there", stop))
    assert (stopped.last.finish_reason, stopped.last.stop_detail) == ("stop", stop)
    assert stopped.tokens == free.tokens[: at + 1]
    assert free.last.stop_detail is None


async def test_the_end_token_is_part_of_the_completion(engine):
    calls = [complete(engine, random_prompt(i, 10), max_tokens=480, seed=i) for i in range(6)]
    ended = [c for c in await asyncio.gather(*calls) if c.last.finish_reason == "stop"]
    assert ended and all(c.tokens[-1] in engine.eos_token_ids for c in ended)
    assert all(not set(c.tokens[:-1]) & engine.eos_token_ids for c in ended)


async def test_a_prompt_over_the_limit_is_an_overflow(engine):
    with pytest.raises(ContextOverflow, match=r"512 tokens, the context limit is 512"):
        await complete(engine, random_prompt(0, 512))
    with pytest.raises(ContextOverflow):  # and as the server itself says it
        async for _ in engine._stream(random_prompt(0, 600), Sampling(1.0, 4), 0):
            pass


async def test_closing_the_stream_aborts_the_call(engine):
    async with aclosing(engine.generate(random_prompt(3, 8), Sampling(1.0, 500, seed=1))) as stream:
        await anext(stream)
        async with asyncio.timeout(30):
            while await running(engine) != 1:  # noqa: ASYNC110 - its count follows a moment later
                await asyncio.sleep(0.02)
    async with asyncio.timeout(30):
        while await running(engine):  # noqa: ASYNC110 - the server's state has no event
            await asyncio.sleep(0.02)


async def running(engine) -> int:
    metrics = (await engine._client._http.get("/metrics")).text
    return sum(int(float(line.split()[-1])) for line in metrics.splitlines() if "num_requests_running{" in line)


async def test_files_that_would_break_the_engine_are_refused_before_it_is_asked(engine, hf, tmp_path):
    weights = {n: p.detach().clone() for n, p in hf.named_parameters() if n in UPDATED}
    cases = {
        "unknown": ({"model.layers.9.mlp.up_proj.weight": torch.zeros(2, 2)}, "does not have|do not have"),
        "shape": ({UPDATED[0]: torch.zeros(3, 3)}, r"\(3, 3\) in the update"),
        "dtype": ({UPDATED[0]: weights[UPDATED[0]].to(torch.int32)}, "I32"),
    }
    for name, (tensors, cause) in cases.items():
        (tmp_path / name).mkdir()
        save_file(tensors, tmp_path / name / "model.safetensors")
        with pytest.raises(EngineError, match=cause):
            await engine.load_weights(tmp_path / name, 1)
    (tmp_path / "cut").mkdir()
    save_file(weights, whole := tmp_path / "cut" / "model.safetensors")
    whole.write_bytes(whole.read_bytes()[:-1])
    with pytest.raises(EngineError, match="cut off"):
        await engine.load_weights(tmp_path / "cut", 1)
    with pytest.raises(EngineError, match=r"no \*\.safetensors"):
        await engine.load_weights(tmp_path / "nowhere", 1)
    assert engine.weight_version == 0
    assert (await complete(engine, random_prompt(1, 9), max_tokens=4)).last.spans == [(0, 4, 0)]


async def test_an_update_reaches_running_calls_and_the_spans_say_where(engine, hf, update):
    folder, _ = update
    begun = asyncio.Event()

    async def call(seed):
        chunks = []
        async for chunk in engine.generate(random_prompt(seed, 10), Sampling(1.0, 480, seed=seed)):
            chunks.append(chunk)
            if len(chunks) == 4:
                begun.set()
        return seed, chunks

    calls = [asyncio.create_task(call(seed)) for seed in (100, 101, 102)]
    await begun.wait()
    await engine.load_weights(folder, 1)
    assert engine.weight_version == 1
    crossed = 0
    for seed, chunks in await asyncio.gather(*calls):
        tokens = [t for c in chunks for t in c.token_ids]
        logps = torch.tensor([p for c in chunks for p in c.logprobs])
        spans = chunks[-1].spans
        assert spans[0][0] == 0 and spans[-1][1] == len(tokens)
        assert all(a[1] == b[0] for a, b in itertools.pairwise(spans))
        if [version for _, _, version in spans] != [0, 1]:
            continue
        crossed += 1
        cut = spans[0][1]
        gap = (logps - reference_logprobs(hf, random_prompt(seed, 10), tokens, 1.0)).abs()
        assert gap[:cut].max() < 1e-3 < gap[cut:].mean()  # the first token of the new version is of the new weights
        assert gap[cut] > 1e-3
    assert crossed


async def test_calls_after_the_update_are_those_of_the_new_weights(engine, update):
    _, updated = update
    prompt = random_prompt(0, 5)  # known to the prefix cache from before the update
    completion = await complete(engine, prompt, seed=0)
    assert {chunk.weight_version for chunk in completion.chunks} == {1}
    assert completion.last.spans == [(0, len(completion.tokens), 1)]
    assert largest_gap(completion, updated) < 1e-3


async def test_while_it_sleeps_calls_wait_and_afterwards_go_on_as_if_it_had_not(engine, update):
    _, model = update
    engine._settings = replace(engine._settings, shares_gpus=True)
    try:
        chunks, begun = [], asyncio.Event()

        async def call():
            async for chunk in engine.generate(random_prompt(8, 10), Sampling(1.0, 480, seed=8)):
                chunks.append(chunk)
                begun.set()

        running = asyncio.create_task(call())
        await begun.wait()
        async with engine.asleep():
            assert (await engine._client.call("GET", "/is_sleeping"))["is_sleeping"]
            new = asyncio.create_task(complete(engine, random_prompt(9, 5), max_tokens=4))
            await asyncio.sleep(0.5)  # what was sampled before may still arrive
            count = len(chunks)
            await asyncio.sleep(0.5)
            assert len(chunks) == count and not new.done()
        assert len((await new).tokens) == 4
        await running
        tokens = [token for chunk in chunks for token in chunk.token_ids]
        logps = torch.tensor([logp for chunk in chunks for logp in chunk.logprobs])
        assert (logps - reference_logprobs(model, random_prompt(8, 10), tokens, 1.0)).abs().max() < 1e-3
    finally:
        engine._settings = replace(engine._settings, shares_gpus=False)


async def test_an_episode_plays_through_the_gateway(engine, update):
    gateway = Gateway(engine)
    await gateway.start()
    try:
        gateway.ledger.open("cid-1", CallPolicy("train", 1.0, 12, call_limit=8, seed_parts=(0, 0, 0, 0)))
        async with httpx.AsyncClient() as client:
            body = {"model": "any", "messages": [{"role": "user", "content": "hi"}], "max_tokens": 12}
            answer = (await client.post(gateway.chat_url("cid-1"), json=body, timeout=60)).json()
        record = gateway.ledger.close("cid-1")
        call = record.calls[0]
        assert answer["rltui"]["weight_version"] == 1
        assert call.prompt_token_ids == await engine.render(body["messages"])
        assert answer["choices"][0]["message"]["content"] == engine.decode(call.completion_token_ids)
        assert [(s.start, s.end, s.weight_version) for s in call.spans] == [(0, len(call.completion_token_ids), 1)]
    finally:
        await gateway.stop()


@pytest.mark.slow  # tests/inference/test_vllm_faults.py does it with a stand-in
async def test_a_killed_core_is_started_again_at_the_current_weights(engine, update):
    folder, updated = update
    await engine.load_weights(folder, 1)
    leader = engine.pid
    async with aclosing(engine.generate(random_prompt(5, 10), Sampling(0.0, 500))) as chunks:
        await anext(chunks)  # the core is at it
        core_of(engine).kill()
        with pytest.raises(EngineError):
            _ = [chunk async for chunk in chunks]
    waiting = await complete(engine, random_prompt(6, 10), seed=4)  # as long as the restart takes
    assert engine.pid != leader and group_members(leader) == []
    assert waiting.last.spans == [(0, len(waiting.tokens), 1)] and engine.weight_version == 1
    assert largest_gap(waiting, updated) < 1e-3
    assert any("started again at weight version 1" in note for note in engine.notes)


@pytest.mark.slow
async def test_a_server_killed_in_an_update_is_started_again_and_updated(engine, hf, tmp_path, monkeypatch):
    write_update(tmp_path, hf, UPDATED, scale=0.0)  # the weights of the model's files again
    leader, transfer, served = engine.pid, updates.transfer, engine.weight_version

    async def transfer_to_a_dying_server(client, folder, label):
        if engine.pid == leader and label == "2":
            os.kill(leader, signal.SIGKILL)
        await transfer(client, folder, label)

    monkeypatch.setattr(updates, "transfer", transfer_to_a_dying_server)
    engine.notes.clear()
    await engine.load_weights(tmp_path, 2)
    assert engine.pid != leader and group_members(leader) == [] and engine.weight_version == 2
    assert "killed (signal 9)" in engine.notes[0]
    assert any(f"at weight version {served}" in note for note in engine.notes)
    after = await complete(engine, random_prompt(6, 10), seed=4)
    assert after.last.spans == [(0, len(after.tokens), 2)] and largest_gap(after, hf) < 1e-3


async def test_nothing_is_left_after_a_stop(engine):
    leader, folder = engine.pid, Path(engine._process._folder)
    members = group_members(leader)
    shared = {Path(m.path) for member in members for m in member.memory_maps() if m.path.startswith("/dev/shm/")}
    assert folder.is_dir() and len(members) > 1
    await engine.stop()
    assert group_members(leader) == [] and not folder.exists()
    assert not [path for path in shared if path.exists()]
    with pytest.raises(EngineError, match="not running"):
        await complete(engine, [1, 2, 3])
