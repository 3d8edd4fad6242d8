"""Faults in the answer to an episode."""

from __future__ import annotations

import asyncio
import json
import os
from collections.abc import AsyncIterator

from starlette.requests import Request
from starlette.responses import (
    HTMLResponse,
    JSONResponse,
    PlainTextResponse,
    RedirectResponse,
    Response,
    StreamingResponse,
)
from starlette.types import Receive, Scope, Send

from tests.smoke.broken.app import App, Json
from tests.smoke.broken.contract import PAGE


class RolloutIsMissing(App):
    async def rollout(self, request: Request, body: Json) -> Response:
        return JSONResponse({"detail": "Not Found"}, 404)


class RolloutFails(App):
    async def rollout(self, request: Request, body: Json) -> Response:
        return JSONResponse({"detail": "list index out of range"}, 500)


class RolloutForbidsExtraFields(App):
    """As a strict pydantic model answers; the client leaves the fields out and asks again."""

    async def rollout(self, request: Request, body: Json) -> Response:
        extra = [name for name in body if name in ("ops", "on_done", "safety", "record")]
        if extra:
            detail = [
                {"type": "extra_forbidden", "loc": ["body", n], "msg": "Extra inputs not permitted"} for n in extra
            ]
            return JSONResponse({"detail": detail}, 422)
        return await super().rollout(request, body)


class RolloutNeedsAnotherField(App):
    async def rollout(self, request: Request, body: Json) -> Response:
        detail = [{"type": "missing", "loc": ["body", "scenario"], "msg": "Field required"}]
        return JSONResponse({"detail": detail}, 422)


class RedirectsElsewhere(App):
    async def rollout(self, request: Request, body: Json) -> Response:
        return RedirectResponse("http://elsewhere.invalid/rollout", 307)


class Hangs(App):
    async def rollout(self, request: Request, body: Json) -> Response:
        await asyncio.sleep(60)
        return JSONResponse({})


class IsAPage(App):
    def sent(self, answer: Json) -> Response:
        return HTMLResponse(PAGE)


class HasWrongType(App):
    def sent(self, answer: Json) -> Response:
        return PlainTextResponse(json.dumps(answer))


class IsHuge(App):
    def sent(self, answer: Json) -> Response:
        return super().sent(answer | {"debug": "x" * 10 * 2**20})


class NeverEnds(App):
    def sent(self, answer: Json) -> Response:
        async def forever() -> AsyncIterator[bytes]:
            while True:
                yield b" " * 2**20
                await asyncio.sleep(0)  # else the loop never learns that the client has left

        return StreamingResponse(forever(), media_type="application/json")


class Drips(App):
    def sent(self, answer: Json) -> Response:
        async def forever() -> AsyncIterator[bytes]:
            while True:
                yield b" "
                await asyncio.sleep(0.05)

        return StreamingResponse(forever(), media_type="application/json")


class _CutOff(Response):
    """Promises more bytes than it sends."""

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        await send({"type": "http.response.start", "status": 200, "headers": [(b"content-length", b"1000")]})
        await send({"type": "http.response.body", "body": b'{"metrics": '})


class BreaksOff(App):
    def sent(self, answer: Json) -> Response:
        return _CutOff()


class IsNested(App):
    def sent(self, answer: Json) -> Response:
        return Response("[" * 100_000 + "]" * 100_000, media_type="application/json")


class DiesInAnEpisode(App):
    """After the first model call."""

    def reward(self, seed: int, message: Json) -> float:
        os._exit(7)


class _Changed(App):
    """Another answer than the sound one."""

    def changed(self, answer: Json, body: Json) -> Json:
        raise NotImplementedError

    def answer(self, body: Json, steps: list[Json]) -> Json:
        return self.changed(super().answer(body, steps), body)


class HasNoKnownField(_Changed):
    def changed(self, answer: Json, body: Json) -> Json:
        return {"result": "ok", "score": 1.0}


class HasNoReward(_Changed):
    def changed(self, answer: Json, body: Json) -> Json:
        steps = [{"obs": {}, "done": True, "info": {"meta": {}}}]
        return answer | {"metrics": {"num_steps": 1}, "trajectories": [{"steps": steps}]}


class RewardIsText(_Changed):
    def changed(self, answer: Json, body: Json) -> Json:
        return answer | {"metrics": {"outcome_reward": "1.0"}}


class RewardIsABoolean(_Changed):
    def changed(self, answer: Json, body: Json) -> Json:
        return answer | {"metrics": {"outcome_reward": True}}


class RewardIsNan(App):
    """As Python's json writes it, which no other parser reads."""

    def sent(self, answer: Json) -> Response:
        answer["metrics"]["outcome_reward"] = float("nan")
        return Response(json.dumps(answer), media_type="application/json")


class StepRewardIsNull(_Changed):
    def changed(self, answer: Json, body: Json) -> Json:
        answer["trajectories"][0]["steps"][1]["reward"] = "high"
        return answer


class HasTwoTrajectories(_Changed):
    def changed(self, answer: Json, body: Json) -> Json:
        return answer | {"trajectories": answer["trajectories"] * 2}


class IsNeverDone(_Changed):
    def changed(self, answer: Json, body: Json) -> Json:
        for step in answer["trajectories"][0]["steps"]:
            step["done"] = False
        return answer


class EchoesAnotherId(_Changed):
    def changed(self, answer: Json, body: Json) -> Json:
        return answer | {"trace_correlation_id": "episode-of-yesterday"}


class EchoesNothing(_Changed):
    def changed(self, answer: Json, body: Json) -> Json:
        del answer["trace_correlation_id"], answer["inference_url"]
        return answer


class GaveUp(_Changed):
    def changed(self, answer: Json, body: Json) -> Json:
        return answer | {"success_status": "failed", "status_detail": "the simulator did not start"}


class CountsWrongly(_Changed):
    def changed(self, answer: Json, body: Json) -> Json:
        answer["metrics"]["num_steps"] = 17
        return answer


class EchoesTheHeaders(_Changed):
    """Its debug output holds the key."""

    def changed(self, answer: Json, body: Json) -> Json:
        return answer | {"debug": {"x-api-key": self.key}}


class HasTwoReturns(_Changed):
    def changed(self, answer: Json, body: Json) -> Json:
        return answer | {"metrics": {"episode_returns": [0.5, 1.0]}}


class PaysTooMuch(App):
    def reward(self, seed: int, message: Json) -> float:
        return 50.0 * super().reward(seed, message) + 1.0


class PaysNothing(App):
    def reward(self, seed: int, message: Json) -> float:
        return 0.0
