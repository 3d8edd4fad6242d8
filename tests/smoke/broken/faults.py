"""Faults in how an app plays: where it calls, what it shares between episodes, what it does when calls fail."""

from __future__ import annotations

import asyncio
import json
import random
import time
import urllib.request
from typing import Any

from starlette.requests import Request
from starlette.responses import JSONResponse, Response

from tests.smoke.broken.app import App, Json, ModelFailed

ANYTHING: Json = {"role": "assistant", "content": "red"}


class CallsAVendor(App):
    """A model of its own instead of the one that is to be trained."""

    async def ask(self, body: Json, messages: list[Json]) -> Json:
        return ANYTHING


class DropsTheQuery(App):
    def url(self, body: Json) -> str:
        return super().url(body).partition("?")[0]


class AppendsThePathTwice(App):
    def url(self, body: Json) -> str:
        address, _, query = super().url(body).partition("?")
        return f"{address}/chat/completions?{query}"


class KeepsTheFirstAddress(App):
    first = ""

    def url(self, body: Json) -> str:
        self.first = self.first or super().url(body)
        return self.first


class HasNoStep(App):
    turns = 0

    def answer(self, body: Json, steps: list[Json]) -> Json:
        answer = super().answer(body, steps)
        return answer | {"metrics": {"outcome_reward": 1.0, "num_steps": 0}}


class IgnoresMaxTurns(App):
    turns = 6


class RollsDice(App):
    """Its task is another each time."""

    def prompt(self, seed: int) -> str:
        return f"Press button {random.random()}."


class RollsRewards(App):
    def reward(self, seed: int, message: Json) -> float:
        return random.random() / 2


class IgnoresTheSeed(App):
    def prompt(self, seed: int) -> str:
        return "Press."

    def reward(self, seed: int, message: Json) -> float:
        return super().reward(0, message)


class SharesItsState(App):
    """Two episodes at once play the one that came last."""

    body: Json

    async def play(self, body: Json) -> list[Json]:
        self.body = body
        await asyncio.sleep(0.05)
        return await super().play(self.body)


class SharesItsTask(App):
    """The calls go where they belong, with the task of another episode."""

    seed = 0

    async def play(self, body: Json) -> list[Json]:
        self.seed = body["env"]["seed"]
        await asyncio.sleep(0.05)
        return await super().play(body | {"env": body["env"] | {"seed": self.seed}})


class PlaysOneAfterTheOther(App):
    def __init__(self) -> None:
        super().__init__()
        self.lock = asyncio.Lock()

    async def play(self, body: Json) -> list[Json]:
        async with self.lock:
            await asyncio.sleep(0.2)
            return await super().play(body)


class BreaksUnderLoad(App):
    running = 0

    async def rollout(self, request: Request, body: Json) -> Response:
        self.running += 1
        try:
            if self.running > 1:
                return JSONResponse({"detail": "too many connections"}, 500)
            await asyncio.sleep(0.02)
            return await super().rollout(request, body)
        finally:
            self.running -= 1


class IsSlow(App):
    async def ask(self, body: Json, messages: list[Json]) -> Json:
        await asyncio.sleep(0.15)
        return await super().ask(body, messages)


class RewritesHistory(App):
    async def ask(self, body: Json, messages: list[Json]) -> Json:
        return await super().ask(body, messages[-1:] if len(messages) > 1 else messages)


class AsksForOtherSampling(App):
    def sampling(self) -> Json:
        return {"temperature": 0, "top_p": 0.5, "response_format": {"type": "json_object"}}


class ShowsPictures(App):
    def prompt(self, seed: int) -> Any:
        text = {"type": "text", "text": super().prompt(seed)}
        return [text, {"type": "image_url", "image_url": {"url": "data:image/png;base64,AAAA"}}]


class MakesRewardsUp(App):
    """A failed call is answered for it."""

    async def ask(self, body: Json, messages: list[Json]) -> Json:
        try:
            return await super().ask(body, messages)
        except ModelFailed:
            return ANYTHING

    def reward(self, seed: int, message: Json) -> float:
        return 0.0 if message is ANYTHING else super().reward(seed, message)


class MakesRewardsUpInTime(App):
    """So is one that takes long."""

    turns = 1

    async def ask(self, body: Json, messages: list[Json]) -> Json:
        try:
            async with asyncio.timeout(2.0):
                return await super().ask(body, messages)
        except TimeoutError:
            return ANYTHING

    def reward(self, seed: int, message: Json) -> float:
        return 0.0 if message is ANYTHING else super().reward(seed, message)


class TellsTheKeyInErrors(App):
    def failed(self, request: Request, error: ModelFailed) -> Response:
        return JSONResponse({"detail": f"{error}; headers {dict(request.headers)}"}, 500)


class BlocksTheLoop(App):
    """A model call without `await`."""

    async def ask(self, body: Json, messages: list[Json]) -> Json:
        content = json.dumps({"messages": messages}).encode()
        request = urllib.request.Request(self.url(body), content, {"content-type": "application/json"})
        try:
            with urllib.request.urlopen(request, timeout=10) as answer:  # noqa: ASYNC210 - that is its fault
                return json.load(answer)["choices"][0]["message"]
        except OSError as error:
            raise ModelFailed(str(error)) from None


class ThinksInTheLoop(App):
    """Its environment computes where it should let others go on."""

    def reward(self, seed: int, message: Json) -> float:
        time.sleep(0.1)
        return super().reward(seed, message)
