"""A server that takes and gives token ids, one at a time by the model's plain forward pass: `ids_server MODEL`."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Any

import torch
import uvicorn
from safetensors.torch import load_file
from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import JSONResponse
from starlette.routing import Route

from trainer.models import eos_token_ids, load_model


def app(path: Path) -> Starlette:
    model, ends, serving = load_model(path, torch.float32), set(eos_token_ids(path)), {"version": 0}

    @torch.inference_mode()
    def sample(body: dict[str, Any]) -> dict[str, Any]:
        ids, version = list(body["ids"]), serving["version"]
        start, logprobs, tops, finish = len(ids), [], [], "length"
        for _ in range(body["max_tokens"]):
            temperature = body["temperature"]
            logp = (model(torch.tensor([ids])).logits[0, -1] / (temperature or 1.0)).log_softmax(-1)
            ids.append(int(torch.multinomial(logp.exp(), 1) if temperature else logp.argmax()))
            logprobs.append(float(logp[ids[-1]]))
            best = logp.topk(body["top_logprobs"])
            tops.append(list(zip(best.indices.tolist(), best.values.tolist(), strict=True)))
            if ids[-1] in ends:
                finish = "stop"
                break
        return {"ids": ids[start:], "logprobs": logprobs, "top": tops, "version": version, "finish": finish}

    async def generate(request: Request) -> JSONResponse:
        return JSONResponse(sample(await request.json()))

    async def weights(request: Request) -> JSONResponse:
        body = await request.json()
        for file in Path(body["path"]).glob("*.safetensors"):
            model.load_state_dict(load_file(file), strict=False)
        serving["version"] = body["version"]
        return JSONResponse({})

    async def health(request: Request) -> JSONResponse:
        return JSONResponse({})

    return Starlette(
        routes=[Route(f"/{f.__name__}", f, methods=["POST"]) for f in (generate, weights, health)],
    )


if __name__ == "__main__":
    uvicorn.run(app(Path(sys.argv[1])), port=int(sys.argv[2]), log_level="warning")
