"""The engine in front of a server that is not ours (inference.url): a small stand-in that answers as vLLM does."""

import asyncio
from contextlib import asynccontextmanager, suppress
from types import SimpleNamespace

import pytest
import pytest_asyncio
import uvicorn

from tests.inference.conftest import write_update
from tests.inference.stand_in import Server, started
from tests.inference.vllm_tools import complete
from trainer.inference.chat import TemplateError
from trainer.inference.engine import EngineError
from trainer.inference.gateway import _Server
from trainer.inference.vllm import hang, probe
from trainer.inference.vllm.engine import VllmEngine
from trainer.inference.vllm.http import VllmClient
from trainer.inference.vllm.options import VllmSettings
from trainer.inference.vllm.probe import ROUTES


@asynccontextmanager
async def serving():
    """A stand-in at an address of its own."""
    stand_in = Server()
    config = uvicorn.Config(stand_in.app, port=0, log_config=None, lifespan="off", timeout_graceful_shutdown=1)
    runner = _Server(config)
    running = asyncio.create_task(runner.serve())
    while not runner.started:  # noqa: ASYNC110 - uvicorn has no event for it
        await asyncio.sleep(0.005)
    stand_in.url = f"http://127.0.0.1:{runner.servers[0].sockets[0].getsockname()[1]}"
    yield stand_in
    runner.should_exit = True
    await running


@pytest_asyncio.fixture
async def server():
    async with serving() as stand_in:
        yield stand_in


def engine_at(server, tiny, **settings) -> VllmEngine:
    defaults = {"dtype": "float32", "seed": 0, "max_model_len": 512, "sync": "full"}
    return VllmEngine(tiny, VllmSettings(model=tiny.path, name=tiny.name, **(defaults | settings)), url=server.url)


async def test_a_call_asks_for_the_exact_distribution_and_no_text(server, tiny):
    engine = engine_at(server, tiny)
    await engine.start()
    done = await complete(engine, [1, 2, 3], temperature=0.7, max_tokens=9, seed=2**62)
    assert (done.tokens, done.logprobs.tolist(), done.last.spans) == ([65, 66], [-0.5, -0.5], [(0, 2, 0)])
    body = server.bodies[-1]
    params = body["sampling_params"]
    assert (body["model"], body["token_ids"]) == ("served", [1, 2, 3])
    assert (params["temperature"], params["max_tokens"], params["seed"], params["logprobs"]) == (0.7, 9, 2**62, 0)
    assert (params["top_p"], params["top_k"], params["repetition_penalty"]) == (1.0, -1, 1.0)
    assert params["detokenize"] is False and set(params["stop_token_ids"]) == engine.eos_token_ids
    await complete(engine, [1], stop=("x",))
    params = server.bodies[-1]["sampling_params"]
    assert params["detokenize"] is params["include_stop_str_in_output"] is True and params["stop"] == ["x"]
    await engine.stop()


async def test_an_update_pauses_keeps_and_resumes_and_says_its_version(server, tiny, hf, tmp_path):
    engine = engine_at(server, tiny)
    await engine.start()
    write_update(tmp_path, hf, ["model.norm.weight"])
    server.calls.clear()
    await engine.load_weights(tmp_path, 4)
    update = ["/start_weight_update", "/update_weights", "/finish_weight_update"]
    assert server.calls == ["/pause?mode=keep", *update, "/resume"]
    assert engine.weight_version == 4 and {"weight_version": "4"} in server.bodies
    await complete(engine, [1])
    other = engine_at(server, tiny)
    await other.start()
    await complete(other, [1])
    salts = [body["cache_salt"] for body in server.bodies if "cache_salt" in body]
    assert salts[-3].endswith("-v4") and salts[-1].endswith("-v0")
    assert salts[-1] != salts[0].replace("v4", "v0")  # an earlier run's cache is not this one's
    await other.stop()
    await engine.stop()


async def test_a_server_that_hangs_is_given_up_with_the_cause(server, tiny, monkeypatch):
    for name, seconds in (("SILENT_S", 0.2), ("PROBE_S", 0.2), ("LOOK_S", 0.05)):
        monkeypatch.setattr(hang, name, seconds)
    engine = engine_at(server, tiny)
    await engine.start()
    server.silent = True
    call = asyncio.create_task(complete(engine, [1]))
    await asyncio.wait_for(asyncio.shield(engine.ended), 20)
    assert engine.fate.startswith(
        f"the vLLM server at {server.url} cannot be used any more: vLLM hung: 1 running calls"
    )
    assert engine.state == "gone"
    call.cancel()
    await engine.stop()


async def test_a_version_that_is_sent_twice_shares_no_cache_with_itself(server, tiny, hf, tmp_path):
    """The first sending may have brought other weights: that is why it was repeated."""
    engine = engine_at(server, tiny)
    await engine.start()
    write_update(tmp_path, hf, ["model.norm.weight"])
    for _ in range(2):
        await engine.load_weights(tmp_path, 4)
        await complete(engine, [1])
    first, second = [body["cache_salt"] for body in server.bodies if "cache_salt" in body][-2:]
    assert first != second
    await engine.stop()


@pytest.mark.parametrize("text", [False, True])
async def test_a_call_may_ask_for_the_likeliest_tokens(server, tiny, text):
    if text:
        server.missing = set(ROUTES["generate"])
    engine = engine_at(server, tiny)
    await engine.start()
    done = await complete(engine, [1, 2, 3], temperature=0.0, top_logprobs=2)
    assert [top for chunk in done.chunks for top in chunk.top] == [{65: -0.5, 7: -1.5}] * 2
    done = await complete(engine, [1, 2, 3])
    assert {chunk.top for chunk in done.chunks} == {None}
    await engine.stop()


@pytest.mark.parametrize("broken", ["/update_weights", "/pause", "/finish_weight_update"])
async def test_a_failed_update_leaves_the_old_version_and_resumes(server, tiny, hf, tmp_path, broken):
    engine = engine_at(server, tiny)
    await engine.start()
    write_update(tmp_path, hf, ["model.norm.weight"])
    server.broken, server.calls = {broken}, []
    with pytest.raises(EngineError, match="it broke"):
        await engine.load_weights(tmp_path, 1)
    assert engine.weight_version == 0 and server.calls[-1] == "/resume"
    assert engine.ended.done() == (broken != "/pause")  # not ours to start again, and its weights are undefined
    await engine.stop()


async def test_a_server_that_breaks_in_the_update_is_told_by_what_broke_first(server, tiny, hf, tmp_path):
    engine = engine_at(server, tiny)
    await engine.start()
    write_update(tmp_path, hf, ["model.norm.weight"])
    server.broken = {"/update_weights", "/resume"}
    with pytest.raises(EngineError, match=r"500 to /update_weights: it broke; vLLM did not resume"):
        await engine.load_weights(tmp_path, 1)
    assert server.url in engine.fate
    await engine.stop()


async def test_an_engine_that_counts_no_versions_leaves_the_spans_to_the_order_of_arrival(server, tiny):
    server.missing, server.spans = {"/update_weight_version"}, False
    engine = engine_at(server, tiny)
    await engine.start()
    done = await complete(engine, [1])
    assert done.last.spans is None and {chunk.weight_version for chunk in done.chunks} == {0}
    await engine.stop()


@pytest.mark.parametrize(
    ("missing", "sync", "said"),
    [
        ({"/inference/v1/generate", "/v1/completions"}, "none", "token generation"),
        ({"/update_weights"}, "full", "weight updates .VLLM_SERVER_DEV_MODE=1"),
        ({"/v1/load_lora_adapter"}, "lora", "adapter loading"),
    ],
)
async def test_what_the_server_lacks_is_named(server, tiny, missing, sync, said):
    server.missing = missing
    with pytest.raises(EngineError, match=said):
        await engine_at(server, tiny, sync=sync).start()


@pytest.mark.parametrize(
    ("options", "said"),
    [
        ({"backend": "nccl"}, "--worker-extension-cls .* --weight-transfer-config .*rltui_files"),
        ({"backend": None, "extension": ""}, "--worker-extension-cls"),
        ({"device": "cpu"}, "--no-enable-chunked-prefill"),
    ],
)
async def test_what_the_server_was_started_without_is_named_before_it_is_asked_to_do_it(server, tiny, options, said):
    server.options = started(**options)
    with pytest.raises(EngineError, match=said):
        await engine_at(server, tiny).start()
    assert server.calls == []


async def test_a_server_that_does_not_show_its_options_says_so_when_it_is_asked(server, tiny):
    server.missing, server.broken = {"/server_info"}, {"/init_weight_transfer_engine"}
    with pytest.raises(EngineError, match=r"--worker-extension-cls .*it broke"):
        await engine_at(server, tiny).start()


async def test_log_probabilities_before_truncation_are_noticed(server, tiny):
    server.processed = False
    with pytest.raises(EngineError, match="--logprobs-mode processed_logprobs"):
        await engine_at(server, tiny, sync="none").start()


async def test_without_its_token_endpoint_the_text_endpoint_takes_and_gives_token_ids(server, tiny, tokenizer):
    scale_out = ("generate", "render", "derender")
    server.missing = {route for name in scale_out for route in ROUTES[name]}
    engine = engine_at(server, tiny)
    await engine.start()
    done = await complete(engine, [1, 2, 3], temperature=0.7, max_tokens=9, seed=2**62, stop=("B",))
    assert (done.tokens, done.logprobs.tolist()) == ([65, 66], [-0.5, -0.5])
    assert (done.last.finish_reason, done.last.stop_detail, done.last.spans) == ("stop", "B", None)
    body = server.bodies[-1]
    assert (body["model"], body["prompt"]) == ("served", [1, 2, 3]) and body["cache_salt"].endswith("-v0")
    assert (body["temperature"], body["max_tokens"], body["seed"], body["logprobs"]) == (0.7, 9, 2**62, 0)
    assert (body["top_p"], body["top_k"], body["min_p"], body["repetition_penalty"]) == (1.0, -1, 0.0, 1.0)
    assert body["stop"] == ["B"] and body["include_stop_str_in_output"] is body["return_token_ids"] is True
    assert body["stream_interval"] == 1  # the order of arrival is what tells versions apart
    messages = [{"role": "user", "content": "hi"}]
    expected = tokenizer.apply_chat_template(messages, add_generation_prompt=True, return_dict=False)
    assert await engine.render(messages) == expected
    text = 'so <tool_call>\n{"name": "look", "arguments": {"at": 1}}\n</tool_call>'
    tools = [{"type": "function", "function": {"name": "look", "parameters": {"type": "object", "properties": {}}}}]
    reply = await engine.derender(tokenizer.encode(text), tools)
    assert (reply.text.strip(), reply.tool_calls[0]["function"]["name"]) == ("so", "look")
    taken = engine.describe()
    assert (taken["generate"], taken["render"], taken["derender"]) == ("/v1/completions", "template", "tokenizer")
    await engine.stop()


async def test_in_front_of_an_address_with_a_key_the_key_is_not_shown(server, tiny):
    server.url = server.url.replace("127.0.0.1", "me:hush@127.0.0.1") + "/v1/"
    engine = engine_at(server, tiny)
    await engine.start()
    assert engine.url.startswith("http://127.0.0.1:") and engine.state == "serving"
    await engine.stop()
    assert engine.state == "gone"


async def test_without_syncs_the_update_calls_are_not_needed(server, tiny):
    server.missing = {"/update_weights", "/pause", "/v1/load_lora_adapter"}
    engine = engine_at(server, tiny, sync="none")
    await engine.start()
    server.spans = False  # they are under the label that somebody else gave
    assert (await complete(engine, [1])).last.spans == [(0, 2, 0)]
    assert set(server.calls) == {"/inference/v1/generate"}  # nothing is changed there, not even a label
    with pytest.raises(EngineError, match="weight_sync is off"):
        await engine.load_weights(tiny.path, 1)
    await engine.stop()


async def test_a_smaller_context_than_the_run_needs_is_said(server, tiny):
    server.limit = 256
    with pytest.raises(EngineError, match=r"256 tokens, the run needs vllm\.max_model_len = 512"):
        await engine_at(server, tiny).start()


async def test_nobody_at_the_address(tiny, server):
    server.url = "http://127.0.0.1:9"
    with pytest.raises(EngineError, match=r"inference\.url"):
        await engine_at(server, tiny).start()


async def test_another_kind_of_server_at_the_address(server, tiny):
    server.models = {}
    with pytest.raises(EngineError, match=rf"at inference\.url = {server.url} does not look like a vLLM server"):
        await engine_at(server, tiny).start()


async def test_a_server_that_hangs_is_told_with_the_time(tiny, monkeypatch):
    monkeypatch.setattr(VllmClient.healthy, "__defaults__", (0.2,))
    monkeypatch.setattr(probe, "CONNECT_S", 0.2)
    silent = await asyncio.start_server(lambda reader, writer: reader.read(), "127.0.0.1", 0)
    async with silent:
        where = SimpleNamespace(url=f"http://127.0.0.1:{silent.sockets[0].getsockname()[1]}")
        with pytest.raises(EngineError, match=r"no vLLM server answers .*\(\d+ s were waited for /health\)"):
            await engine_at(where, tiny).start()


@pytest.mark.parametrize("streams", [False, True], ids=["control", "stream"])
async def test_a_connection_that_a_fault_was_told_on_is_not_used_again(streams):
    """Such a server closes it a moment later, and does not say so."""
    told = []

    async def answer(reader, writer):
        told.append(writer)
        with suppress(asyncio.IncompleteReadError):
            while await reader.readuntil(b"\r\n\r\n"):
                writer.write(b"HTTP/1.1 500 Internal Server Error\r\ncontent-length: 21\r\n\r\nInternal Server Error")

    async with await asyncio.start_server(answer, "127.0.0.1", 0) as broken:
        client = VllmClient(f"http://127.0.0.1:{broken.sockets[0].getsockname()[1]}")
        for _ in range(2):
            with pytest.raises(EngineError, match="Internal Server Error"):
                if streams:
                    _ = [choice async for choice in client.stream("/any", {})]
                else:
                    await client.call("GET", "/any")
        await client.close()
    assert len(told) == 2


async def test_a_chat_that_the_template_refuses_is_the_request_s_fault(server, tiny):
    engine = engine_at(server, tiny)
    await engine.start()
    with pytest.raises(TemplateError, match="roles must alternate"):
        await engine.render([{"role": "user", "content": "x"}])
    server.broken = {"/inference/v1/generate"}
    with pytest.raises(EngineError, match="500"):
        await complete(engine, [1])
    await engine.stop()
