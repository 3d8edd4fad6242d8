"""A small server that answers as vLLM does, in this process or (`python -m`) in one of its own, where it can fail."""

from __future__ import annotations

import asyncio
import json
import os
import signal
import sys
from pathlib import Path

import uvicorn
from starlette.applications import Starlette
from starlette.responses import JSONResponse, StreamingResponse
from starlette.routing import Route

from trainer.inference.vllm.options import BACKEND, EXTENSION
from trainer.inference.vllm.probe import ROUTES

FAULTS = "RLTUI_TEST_FAULTS"  # a folder with files `SIGNAL-of-PATH`; each is used once
MISSING = "RLTUI_TEST_MISSING"  # routes that it does not have


def started(backend=BACKEND, extension=EXTENSION, device="cuda", chunked=True) -> dict:
    """The options of a server, as it shows them."""
    return {
        "weight_transfer_config": {"backend": backend} if backend else None,
        "parallel_config": {"worker_extension_cls": extension},
        "device_config": {"device": device},
        "scheduler_config": {"enable_chunked_prefill": chunked},
    }


class Server:
    """`missing` routes are not there, `broken` ones answer 500; `calls` are what was asked, in order."""

    def __init__(self) -> None:
        self.missing: set[str] = set()
        self.broken: set[str] = set()
        self.calls: list[str] = []
        self.bodies: list[dict] = []
        self.limit, self.spans, self.processed, self.silent = 512, True, True, False
        self.options = started()
        self.top = {65: -0.5, 7: -1.5}  # the likeliest tokens, for a call that asks
        self.models: dict | None = None  # other than the usual answer
        self.fails = lambda path: None
        self.going, self.updating = asyncio.Event(), False  # not set: paused, and no call brings a token
        self.going.set()
        self.reached: dict[str, asyncio.Event] = {}  # by path: set as it is asked, whose answer never comes
        self.app = Starlette(routes=[Route("/{path:path}", self.answer, methods=["GET", "POST"])])

    async def answer(self, request):
        path = request.url.path
        self.fails(path)
        if path == "/health":
            return JSONResponse({})
        if path == "/openapi.json":
            known = {route for routes in ROUTES.values() for route in routes}
            return JSONResponse({"paths": {route: {} for route in known - self.missing}})
        if path == "/version":
            return JSONResponse({"version": "0.99"})
        if path == "/v1/models":
            served = {"data": [{"id": "served", "max_model_len": self.limit}]}
            return JSONResponse(served if self.models is None else self.models)
        if path == "/server_info":
            return JSONResponse({"vllm_config": self.options})
        if path == "/is_paused":
            return JSONResponse({"is_paused": not self.going.is_set()})
        self.calls.append(path + (f"?{request.url.query}" if request.url.query else ""))
        if path in self.broken:
            self.updating &= path != "/update_weights"
            return JSONResponse({"error": {"message": "it broke"}}, 500)
        body = await request.json() if await request.body() else {}
        self.bodies.append(body)
        if path in self.reached:
            self.reached[path].set()
            await asyncio.Event().wait()
        if path in ("/pause", "/resume"):
            (self.going.clear if path == "/pause" else self.going.set)()
        if path in ("/start_weight_update", "/finish_weight_update"):
            if self.updating == (path == "/start_weight_update"):
                return JSONResponse({"error": {"message": "no such moment of an update"}}, 500)
            self.updating = not self.updating
        if path == "/v1/chat/completions/render":
            return JSONResponse({"error": {"message": "roles must alternate"}}, 400)
        if path == "/inference/v1/generate":
            return StreamingResponse(self.stream(body["sampling_params"]), media_type="text/event-stream")
        if path == "/v1/completions":
            return StreamingResponse(self.text_stream(body), media_type="text/event-stream")
        return JSONResponse({})

    def logprob(self, sampling):
        """Of a token that nothing else could be in the place of, if these are the ones it was sampled from."""
        return 0.0 if self.processed and sampling["top_k"] == 1 else -0.5

    async def text_stream(self, body):
        await self.going.wait()
        logprobs = {"token_logprobs": [self.logprob(body)], "tokens": [""], "top_logprobs": [{}], "text_offset": [0]}
        for token in (65, 66):
            if body["logprobs"] and body["return_tokens_as_token_ids"]:
                logprobs["top_logprobs"] = [{f"token_id:{t}": p for t, p in self.top.items()}]
            choice = {"index": 0, "text": "", "token_ids": [token], "logprobs": logprobs, "finish_reason": None}
            yield f"data: {json.dumps({'choices': [choice]})}\n\n"
        last = {"index": 0, "text": "AB", "token_ids": [], "finish_reason": "stop", "stop_reason": "B"}
        yield f"data: {json.dumps({'choices': [last]})}\n\n"
        yield "data: [DONE]\n\n"

    async def stream(self, sampling):
        await self.going.wait()
        if self.silent:
            await asyncio.Event().wait()
        tops = [{"token_id": t, "logprob": p} for t, p in self.top.items()] if sampling["logprobs"] else []
        tokens = [{"token_id": t, "logprob": self.logprob(sampling), "top_logprobs": tops} for t in (65, 66)]
        choice = {"index": 0, "token_ids": [65, 66], "logprobs": {"content": tokens}, "finish_reason": None}
        yield f"data: {json.dumps({'choices': [choice]})}\n\n"
        spans = [{"version": "0", "start": 0, "end": 2}] if self.spans else None
        last = {"index": 0, "token_ids": [], "finish_reason": "stop", "stop_reason": 257, "weight_versions": spans}
        yield f"data: {json.dumps({'choices': [last]})}\n\n"
        yield "data: [DONE]\n\n"


def fails(path: str) -> None:
    """Sends itself the signal that a file in the folder of faults has for this path."""
    for file in sorted(Path(os.environ[FAULTS]).glob(f"*-of-{path.strip('/').replace('/', '_')}*")):
        file.unlink()
        os.kill(os.getpid(), signal.Signals[file.name.partition("-")[0]])
        return


if __name__ == "__main__":
    stand_in = Server()
    stand_in.fails, stand_in.missing = fails, set(os.environ.get(MISSING, "").split())
    uvicorn.run(
        stand_in.app,
        uds=next(word.partition("=")[2] for word in sys.argv if word.startswith("--uds=")),
        log_config=None,
        lifespan="off",
    )
