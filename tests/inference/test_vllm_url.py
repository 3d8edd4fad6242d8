"""Servers that a user started by hand (inference.url), with the options of docs/vllm.md, and with fewer."""

from __future__ import annotations

import asyncio
import copy
import itertools
import json
import os
import shlex
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path

import httpx
import pytest
import torch

from tests.e2e.conftest import Trainer
from tests.inference.conftest import random_prompt, reference_logprobs, write_update
from tests.inference.test_vllm_lora import write_adapter
from tests.inference.vllm_tools import START_S, complete, needs_vllm
from tests.waiting import free_port
from trainer.inference.engine import Chunk, ContextOverflow, EngineError, Sampling
from trainer.inference.vllm import calls
from trainer.inference.vllm.engine import VllmEngine
from trainer.inference.vllm.options import VllmSettings
from trainer.inference.vllm.process import SERVER

pytestmark = [needs_vllm, pytest.mark.slow]

GUIDE = Path(__file__).parents[2] / "docs/vllm.md"
ON_CPU = "--enforce-eager --no-enable-chunked-prefill --max-num-batched-tokens 4096 --kv-cache-memory-bytes 300000000"
IDLE = {"OMP_WAIT_POLICY": "PASSIVE", "KMP_BLOCKTIME": "0"}
UPDATED = ["model.layers.0.self_attn.q_proj.weight", "model.layers.2.mlp.down_proj.weight"]
UPDATED += ["model.embed_tokens.weight"]  # which is the head, too


def documented() -> tuple[dict[str, str], list[str]]:
    """Environment and options of the start command in the guide, without model, port, length and dtype."""
    block = next(b for b in GUIDE.read_text().split("```") if "vllm serve MODEL" in b)
    words = shlex.split(block.replace("\\\n", " "))
    at = words.index("vllm")
    env = dict(word.split("=", 1) for word in words[:at])
    return env, words[words.index("bfloat16") + 1 :]


@contextmanager
def running(model: Path, log: Path, env: dict[str, str], options: list[str]) -> Iterator[str]:
    """The address of a server that is ended with its whole group."""
    port = free_port()
    command = [sys.executable, "-m", SERVER, "--model", str(model), "--host", "127.0.0.1", "--port", str(port)]
    command += ["--max-model-len", "512", "--dtype", "float32", *shlex.split(ON_CPU), *options]
    surroundings = {**os.environ, **IDLE, "HF_HUB_OFFLINE": "1", "VLLM_NO_USAGE_STATS": "1", **env}
    with log.open("wb") as output:
        server = subprocess.Popen(
            command, stdout=output, stderr=output, env=surroundings, start_new_session=True, cwd=GUIDE.parents[1]
        )
    url = f"http://127.0.0.1:{port}"
    try:
        deadline = time.monotonic() + START_S
        while not healthy(url):
            assert server.poll() is None and time.monotonic() < deadline, log.read_text()[-3000:]
            time.sleep(0.3)
        yield url
        assert healthy(url)  # whatever was asked of it
    finally:
        os.killpg(server.pid, signal.SIGTERM)
        try:
            server.wait(15)
        except subprocess.TimeoutExpired:
            os.killpg(server.pid, signal.SIGKILL)


def healthy(url: str) -> bool:
    try:
        return httpx.get(f"{url}/health", timeout=5).status_code == 200
    except httpx.HTTPError:
        return False


@pytest.fixture(scope="module")
def plain(tiny, tmp_path_factory) -> Iterator[str]:
    """As started for generation alone."""
    options = ["--logprobs-mode", "processed_logprobs"]
    with running(tiny.path, tmp_path_factory.mktemp("plain") / "log", {}, options) as url:
        yield url


@pytest.fixture(scope="module")
def full(tiny, tmp_path_factory) -> Iterator[str]:
    """As the guide says."""
    with running(tiny.path, tmp_path_factory.mktemp("full") / "log", *documented()) as url:
        yield url


@pytest.fixture
async def engine_at(tiny):
    """Starts engines in front of an address; they are stopped, the server is not."""
    made = []

    async def at(url: str, sync: str = "none") -> VllmEngine:
        settings = VllmSettings(
            model=tiny.path, name=tiny.name, dtype="float32", seed=0, max_model_len=512, sync=sync, lora_r=4
        )
        made.append(engine := VllmEngine(tiny, settings, url=url))
        await engine.start()
        return engine

    yield at
    for engine in made:
        await engine.stop()


def gap(completion, model):
    reference = reference_logprobs(model, completion.prompt, completion.tokens, completion.sampling.temperature)
    return (completion.logprobs - reference).abs()


async def test_without_the_token_endpoints_ids_go_through_the_text_endpoint(plain, engine_at, hf, tokenizer):
    engine = await engine_at(plain)
    taken = engine.describe()
    assert (taken["generate"], taken["render"], taken["derender"]) == ("/v1/completions", "template", "tokenizer")
    asked = [complete(engine, random_prompt(i, 5 + 30 * i), t, seed=i) for i, t in enumerate([0.5, 1.0, 1.3])]
    for completion in await asyncio.gather(*asked):
        assert len(completion.tokens) > 1 and gap(completion, hf).max() < 1e-3
    ended = await asyncio.gather(*(complete(engine, random_prompt(i, 10), max_tokens=480, seed=i) for i in range(6)))
    ended = [c for c in ended if c.last.finish_reason == "stop"]
    assert ended and all(c.tokens[-1] in engine.eos_token_ids for c in ended)
    free = await complete(engine, random_prompt(2, 20), max_tokens=60)
    at = next(i for i, token in enumerate(free.tokens) if i > 5 and 32 < token < 90 and token not in free.tokens[:i])
    stop = engine.decode([free.tokens[at]])
    stopped = await complete(engine, random_prompt(2, 20), max_tokens=60, stop=(stop,))
    assert (stopped.tokens, stopped.last.stop_detail) == (free.tokens[: at + 1], stop)
    with pytest.raises(ContextOverflow):
        async for _ in engine._stream(random_prompt(0, 600), Sampling(1.0, 4), 0):
            pass
    tools = [{"type": "function", "function": {"name": "look", "parameters": {"type": "object", "properties": {}}}}]
    text = 'so <tool_call>\n{"name": "look", "arguments": {"at": 1}}\n</tool_call>'
    reply = await engine.derender(tokenizer.encode(text), tools)
    assert [call["function"]["name"] for call in reply.tool_calls] == ["look"]


async def test_what_it_lacks_for_updates_is_said_and_it_lives_on(plain, engine_at):
    with pytest.raises(EngineError, match=r"lacks weight updates \(VLLM_SERVER_DEV_MODE=1"):
        await engine_at(plain, "full")
    with pytest.raises(EngineError, match=r"lacks adapter loading \(VLLM_ALLOW_RUNTIME_LORA_UPDATING=1"):
        await engine_at(plain, "lora")


async def test_without_our_way_to_load_weights_the_options_are_named_and_it_lives_on(tiny, tmp_path, engine_at):
    """In development mode, with vLLM's own transfer, and with log-probabilities as vLLM has them by itself."""
    options = ["--weight-transfer-config", '{"backend": "nccl"}']
    with running(tiny.path, tmp_path / "log", {"VLLM_SERVER_DEV_MODE": "1"}, options) as url:
        with pytest.raises(EngineError, match=r"--worker-extension-cls .* --weight-transfer-config .*rltui_files"):
            await engine_at(url, "full")
        with pytest.raises(EngineError, match="--logprobs-mode processed_logprobs"):
            await engine_at(url, "none")


async def test_tools_are_read_here_where_it_was_started_without_a_parser(full, engine_at, tokenizer):
    engine = await engine_at(full)
    assert (engine.describe()["render"], engine.describe()["derender"]) == ("endpoint", "tokenizer")
    tools = [{"type": "function", "function": {"name": "look", "parameters": {"type": "object", "properties": {}}}}]
    assert "look" in engine.decode(await engine.render([{"role": "user", "content": "x"}], tools))
    reply = await engine.derender(tokenizer.encode('<tool_call>{"name": "look", "arguments": {}}</tool_call>'), tools)
    assert [call["function"]["name"] for call in reply.tool_calls] == ["look"]


async def test_it_is_asked_whether_it_sees_our_files_and_lives_on_if_not(full, engine_at, hf, tmp_path, monkeypatch):
    engine = await engine_at(full, "full")
    await engine.check_shared(tmp_path / "weights")
    monkeypatch.setattr(Path, "write_text", lambda self, text: 0)  # as of a folder on another file system
    with pytest.raises(EngineError, match=r"does not see .*weights under that path"):
        await engine.check_shared(tmp_path / "weights")
    monkeypatch.undo()
    assert gap(await complete(engine, random_prompt(0, 5)), hf).max() < 1e-3
    assert list((tmp_path / "weights").iterdir()) == []


LEFT = """
import asyncio, os, signal, sys
from trainer.inference.vllm.http import VllmClient

async def update():
    client = VllmClient(sys.argv[1])
    await client.call("POST", "/pause", mode="keep")
    await client.call("POST", "/start_weight_update")
    if sys.argv[2]:
        await client.call("POST", "/update_weights", {"update_info": {"path": sys.argv[2]}})
    os.kill(os.getpid(), signal.SIGKILL)

asyncio.run(update())
"""


@pytest.mark.parametrize("came", [False, True], ids=["no weights came", "weights came"])
async def test_a_run_that_is_killed_in_an_update_holds_up_no_later_one(full, engine_at, hf, tmp_path, came):
    changed = copy.deepcopy(hf)
    update = write_update(tmp_path / "new", hf, UPDATED)
    words = [sys.executable, "-c", LEFT, full, str(tmp_path / "new") if came else ""]
    left = await asyncio.create_subprocess_exec(*words)
    assert await asyncio.wait_for(left.wait(), 60) == -signal.SIGKILL
    engine = await engine_at(full, "full")
    changed.load_state_dict(update if came else {}, strict=False)
    assert gap(await complete(engine, random_prompt(0, 5)), changed).max() < 1e-3
    same = tmp_path / "same"
    write_update(same, hf, UPDATED, scale=0.0)
    await engine.load_weights(same, 1)  # as the next run begins
    assert gap(await complete(engine, random_prompt(0, 5)), hf).max() < 1e-3


@pytest.mark.parametrize("endpoint", [calls.TOKENS, calls.TEXT], ids=["ids", "text"])
async def test_merged_weights_reach_running_calls_through_either_endpoint(full, engine_at, hf, tmp_path, endpoint):
    updated, same = tmp_path / "new", tmp_path / "old"
    changed = copy.deepcopy(hf)
    changed.load_state_dict(write_update(updated, hf, UPDATED, scale=3.0), strict=False)
    write_update(same, hf, UPDATED, scale=0.0)
    engine = await engine_at(full, "full")
    if endpoint is calls.TEXT:  # as of a server that cannot do better
        engine._endpoint, engine._can = endpoint, replace(engine._can, generate=False)
    for seed in range(100, 200, 10):  # a call may be over before the update comes
        begun = asyncio.Event()
        tasks = [asyncio.create_task(long_call(engine, seed + i, begun)) for i in range(3)]
        await begun.wait()
        await engine.load_weights(updated, 1)
        crossed = [check_crossing(hf, seed + i, await task) for i, task in enumerate(tasks)]
        after = await complete(engine, random_prompt(0, 5), seed=seed)
        assert gap(after, changed).max() < 1e-3
        await engine.load_weights(same, 0)  # for whoever comes next
        if any(crossed):
            return
    raise AssertionError("no call was running when the weights changed")


async def long_call(engine: VllmEngine, seed: int, begun: asyncio.Event) -> list[Chunk]:
    chunks = []
    async for chunk in engine.generate(random_prompt(seed, 10), Sampling(1.0, 480, seed=seed)):
        chunks.append(chunk)
        if len(chunks) == 4:
            begun.set()
    begun.set()
    return chunks


def check_crossing(old: torch.nn.Module, seed: int, chunks: list[Chunk]) -> bool:
    """Whether the call began on the old weights and ended on the new ones; then the change is where it says."""
    tokens = [t for c in chunks for t in c.token_ids]
    versions = [c.weight_version for c in chunks for _ in c.token_ids]
    if (spans := chunks[-1].spans) is not None:
        versions = [version for start, end, version in spans for _ in range(start, end)]
    assert len(versions) == len(tokens)
    runs = [(version, len(list(run))) for version, run in itertools.groupby(versions)]
    if [version for version, _ in runs] != [0, 1]:
        return False
    logps = torch.tensor([p for c in chunks for p in c.logprobs])
    off = (reference_logprobs(old, random_prompt(seed, 10), tokens, 1.0) - logps).abs()
    cut = runs[0][1]
    assert off[:cut].max() < 1e-3 < off[cut:].mean() and off[cut] > 1e-3
    return True


async def test_adapters_have_a_name_for_each_version_and_those_of_an_earlier_run_go(tiny, hf, tmp_path, engine_at):
    env = {"VLLM_ALLOW_RUNTIME_LORA_UPDATING": "1"}
    options = shlex.split("--logprobs-mode processed_logprobs --enable-lora --max-loras 3 --max-lora-rank 8")
    adapted = [write_adapter(hf, tmp_path / f"a{seed}", seed) for seed in range(4)]
    with running(tiny.path, tmp_path / "log", env, options) as url:
        for run in (0, 2):  # the later one has versions 0 and 1 as well, of other weights
            engine = await engine_at(url, "lora")
            for version in (0, 1):
                await engine.load_weights(tmp_path / f"a{run + version}", version)
                completion = await complete(engine, random_prompt(version, 40))
                assert completion.last.spans == [(0, len(completion.tokens), version)]
                assert gap(completion, adapted[run + version]).max() < 1e-3
            assert engine.describe()["adapters"] == "versioned"


def test_a_run_of_generation_alone_on_a_plain_server(plain, tmp_path):
    run = Trainer(tmp_path).run(f"inference.url={plain}", "training.weight_sync.enable=false")
    assert run.code == 0, run.stderr
    assert run.status["state"] == "succeeded" and run.status["weight_version"] == 0
    assert run.status["engines"] == [{"url": plain, "kind": "vllm", "version": 0, "state": "gone"}]
    engine = json.loads((run.run_dir / "environment.json").read_text())["engine"]
    assert (engine["generate"], engine["render"], engine["options"]) == ("/v1/completions", "template", [])


def test_a_run_with_merged_weights_on_the_documented_server(full, tmp_path):
    run = Trainer(tmp_path).run(f"inference.url={full}/v1")  # as OpenAI's clients want it
    assert run.code == 0, run.stderr
    assert run.status["weight_version"] == 2 and run.status["engines"][0]["version"] == 2
    gaps = [line["logp_gap/mean"] for line in run.lines("metrics.jsonl") if "logp_gap/mean" in line]
    assert len(gaps) == 2 and max(gaps) < 1e-3


def test_a_run_that_the_server_cannot_serve_ends_with_what_is_missing(plain, tmp_path):
    run = Trainer(tmp_path).run(f"inference.url={plain}")
    assert run.code in (2, 3) and "Traceback" not in run.stderr
    assert "VLLM_SERVER_DEV_MODE=1" in run.status["error"]["message"]
