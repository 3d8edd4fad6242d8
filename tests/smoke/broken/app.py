"""A task app without a fault, written against the contract alone, in pieces that its broken relatives replace.

The task: press the button of the colour that the seed hides, two turns long. An app is served under its own name as the
path, so that one server holds them all; as a file of its own it is chosen by BROKEN in the environment (own.py).
"""

from __future__ import annotations

import json
import os
from typing import Any, ClassVar

import httpx
from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import JSONResponse, Response
from starlette.routing import Route

Json = dict[str, Any]

KEY = "the-right-key-of-these-tests-0123456789"
COLOURS = ("red", "green", "blue")
TOOL: Json = {
    "type": "function",
    "function": {
        "name": "press",
        "parameters": {"type": "object", "properties": {"colour": {"enum": list(COLOURS)}}, "required": ["colour"]},
    },
}
APPS: dict[str, type[App]] = {}


class ModelFailed(Exception):
    """A model call came back with an error."""


class App:
    """Sound in every respect. `name` of a class is its place: NoReward is no_reward."""

    size: ClassVar[int] = 100  # seeds of the split
    turns: ClassVar[int] = 2
    limit_turns: ClassVar[int] = 10
    environment: ClassVar[str] = "press"

    def __init_subclass__(cls) -> None:
        if not cls.__name__.startswith("_"):
            APPS["".join(f"_{c.lower()}" if c.isupper() else c for c in cls.__name__)[1:]] = cls

    def __init__(self) -> None:
        self.key = os.environ.get("ENVIRONMENT_API_KEY", KEY)
        self.http: httpx.AsyncClient | None = None

    # --- who may ask, and what the app says of itself

    def allowed(self, request: Request) -> bool:
        return request.headers.get("x-api-key") == self.key

    def refusal(self, request: Request) -> Response:
        return JSONResponse({"detail": "wrong key"}, 401)

    async def root(self) -> Response:
        return JSONResponse({"status": "ok", "service": "press"})

    async def health(self) -> Response:
        return JSONResponse({"healthy": True})

    async def info(self) -> Response:
        return JSONResponse({"service": {"task": {"id": "press"}}, "limits": {"max_turns": self.limit_turns}})

    def describe(self, seed: int) -> Json:
        metadata = {"seed": seed, "prompt": self.prompt(seed)}
        return {"task": {"id": "press"}, "environment": self.environment, "task_metadata": metadata}

    async def task_info(self, seeds: list[int]) -> Response:
        if not seeds:
            return JSONResponse({"taskset": {"sizes": {"train": self.size}}})
        every = [self.describe(seed) for seed in seeds]
        return JSONResponse(every[0] if len(seeds) == 1 else every)

    # --- an episode

    def prompt(self, seed: int) -> str:
        return f"Seed {seed}: press the right button."

    def reward(self, seed: int, message: Json) -> float:
        calls = message.get("tool_calls") or [{"function": {"arguments": "{}"}}]
        colour = json.loads(calls[0]["function"]["arguments"]).get("colour")
        return 0.5 if colour == COLOURS[seed % 3] else 0.0

    def url(self, body: Json) -> str:
        return body["policy"]["config"]["inference_url"]

    def sampling(self) -> Json:
        return {}

    async def ask(self, body: Json, messages: list[Json]) -> Json:
        """The policy's next message. Raises ModelFailed."""
        self.http = self.http or httpx.AsyncClient(timeout=None, trust_env=False, verify=False)
        call = {"messages": messages, "tools": [TOOL], "max_tokens": 64, **self.sampling()}
        answer = await self.http.post(self.url(body), json=call)
        if answer.status_code != 200:
            raise ModelFailed(f"the model answered {answer.status_code}")
        return answer.json()["choices"][0]["message"]

    async def play(self, body: Json) -> list[Json]:
        """The steps of the episode."""
        seed, steps = body["env"]["seed"], []
        messages: list[Json] = [{"role": "user", "content": self.prompt(seed)}]
        for turn in range(self.turns):
            message = await self.ask(body, messages)
            reward, done = self.reward(seed, message), turn == self.turns - 1
            meta = {"inference_url": body["policy"]["config"]["inference_url"]}
            steps.append({"obs": {}, "tool_calls": [], "reward": reward, "done": done, "info": {"meta": meta}})
            messages = [*messages, message, {"role": "user", "content": "Once more."}]
        return steps

    def answer(self, body: Json, steps: list[Json]) -> Json:
        total = sum(step["reward"] for step in steps)
        return {
            "trace_correlation_id": body["trace_correlation_id"],
            "inference_url": body["policy"]["config"]["inference_url"],
            "trajectories": [{"steps": steps}],
            "metrics": {"outcome_reward": total, "num_steps": len(steps)},
        }

    def sent(self, answer: Json) -> Response:
        return JSONResponse(answer)

    def failed(self, request: Request, error: ModelFailed) -> Response:
        return JSONResponse({"detail": str(error)}, 502)

    async def rollout(self, request: Request, body: Json) -> Response:
        try:
            steps = await self.play(body)
        except ModelFailed as error:
            return self.failed(request, error)
        return self.sent(self.answer(body, steps))


APPS["sound"] = App


def routes(app: App, prefix: str = "") -> list[Route]:
    """The endpoints of `app` under `prefix`."""

    async def root(_: Request) -> Response:
        return await app.root()

    async def health(request: Request) -> Response:
        return await app.health() if app.allowed(request) else app.refusal(request)

    async def info(request: Request) -> Response:
        return await app.info() if app.allowed(request) else app.refusal(request)

    async def task_info(request: Request) -> Response:
        seeds = [int(seed) for seed in request.query_params.getlist("seed")]
        return await app.task_info(seeds) if app.allowed(request) else app.refusal(request)

    async def rollout(request: Request) -> Response:
        return await app.rollout(request, await request.json()) if app.allowed(request) else app.refusal(request)

    return [
        Route(f"{prefix}/", root),
        Route(f"{prefix}/health", health),
        Route(f"{prefix}/info", info),
        Route(f"{prefix}/task_info", task_info),
        Route(f"{prefix}/rollout", rollout, methods=["POST"]),
    ]


def every_app() -> Starlette:
    """All of them, each below its name."""
    return Starlette(routes=[route for name, kind in APPS.items() for route in routes(kind(), f"/{name}")])
