"""The engine in front of a server that is not ours (inference.url): a small stand-in that answers as vLLM does."""

import asyncio
import json

import pytest
import pytest_asyncio
import uvicorn
from starlette.applications import Starlette
from starlette.responses import JSONResponse, StreamingResponse
from starlette.routing import Route

from tests.inference.conftest import write_update
from tests.inference.vllm_tools import complete
from trainer.inference.chat import TemplateError
from trainer.inference.engine import EngineError
from trainer.inference.gateway import _Server
from trainer.inference.vllm.engine import VllmEngine
from trainer.inference.vllm.http import ROUTES
from trainer.inference.vllm.options import VllmSettings


class Server:
    """`missing` routes are not there, `broken` ones answer 500; `calls` are what was asked, in order."""

    def __init__(self) -> None:
        self.missing: set[str] = set()
        self.broken: set[str] = set()
        self.calls: list[str] = []
        self.bodies: list[dict] = []
        self.limit, self.spans = 512, True
        self.app = Starlette(routes=[Route("/{path:path}", self.answer, methods=["GET", "POST"])])

    async def answer(self, request):
        path = request.url.path
        if path == "/health":
            return JSONResponse({})
        if path == "/openapi.json":
            known = {route for routes in ROUTES.values() for route in routes}
            return JSONResponse({"paths": {route: {} for route in known - self.missing}})
        if path == "/version":
            return JSONResponse({"version": "0.99"})
        if path == "/v1/models":
            return JSONResponse({"data": [{"id": "served", "max_model_len": self.limit}]})
        self.calls.append(path + (f"?{request.url.query}" if request.url.query else ""))
        if path in self.broken:
            return JSONResponse({"error": {"message": "it broke"}}, 500)
        body = await request.json() if await request.body() else {}
        self.bodies.append(body)
        if path == "/v1/chat/completions/render":
            return JSONResponse({"error": {"message": "roles must alternate"}}, 400)
        if path == "/inference/v1/generate":
            return StreamingResponse(self.stream(), media_type="text/event-stream")
        return JSONResponse({})

    async def stream(self):
        tokens = [{"token_id": t, "logprob": -0.5} for t in (65, 66)]
        choice = {"index": 0, "token_ids": [65, 66], "logprobs": {"content": tokens}, "finish_reason": None}
        yield f"data: {json.dumps({'choices': [choice]})}\n\n"
        spans = [{"version": "0", "start": 0, "end": 2}] if self.spans else None
        last = {"index": 0, "token_ids": [], "finish_reason": "stop", "stop_reason": 257, "weight_versions": spans}
        yield f"data: {json.dumps({'choices': [last]})}\n\n"
        yield "data: [DONE]\n\n"


@pytest_asyncio.fixture
async def server():
    stand_in = Server()
    config = uvicorn.Config(stand_in.app, port=0, log_config=None, lifespan="off", timeout_graceful_shutdown=1)
    runner = _Server(config)
    serving = asyncio.create_task(runner.serve())
    while not runner.started:  # noqa: ASYNC110 - uvicorn has no event for it
        await asyncio.sleep(0.005)
    stand_in.url = f"http://127.0.0.1:{runner.servers[0].sockets[0].getsockname()[1]}"
    yield stand_in
    runner.should_exit = True
    await serving


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
    assert (body["model"], body["token_ids"], body["cache_salt"]) == ("served", [1, 2, 3], "v0")
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
    assert server.bodies[-1]["cache_salt"] == "v4"
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
        ("/inference/v1/generate", "none", "--enable-scale-out"),
        ("/update_weights", "full", "weight updates .VLLM_SERVER_DEV_MODE=1"),
        ("/v1/load_lora_adapter", "lora", "adapter loading"),
    ],
)
async def test_what_the_server_lacks_is_named(server, tiny, missing, sync, said):
    server.missing = {missing}
    with pytest.raises(EngineError, match=said):
        await engine_at(server, tiny, sync=sync).start()


async def test_without_syncs_the_update_calls_are_not_needed(server, tiny):
    server.missing = {"/update_weights", "/pause", "/v1/load_lora_adapter"}
    engine = engine_at(server, tiny, sync="none")
    await engine.start()
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


async def test_a_chat_that_the_template_refuses_is_the_request_s_fault(server, tiny):
    engine = engine_at(server, tiny)
    await engine.start()
    with pytest.raises(TemplateError, match="roles must alternate"):
        await engine.render([{"role": "user", "content": "x"}])
    server.broken = {"/inference/v1/generate"}
    with pytest.raises(EngineError, match="500"):
        await complete(engine, [1])
    await engine.stop()
