"""Faults in what an app says of itself, and in whom it lets in."""

from __future__ import annotations

import asyncio

from starlette.requests import Request
from starlette.responses import HTMLResponse, JSONResponse, PlainTextResponse, Response

from tests.smoke.broken.app import App, Json

PAGE = "<html><body><h1>502 Bad Gateway</h1></body></html>"


class HealthFails(App):
    async def health(self) -> Response:
        return JSONResponse({"detail": "boom"}, 500)


class HealthIsAPage(App):
    """The error page of a proxy, with 200."""

    async def health(self) -> Response:
        return HTMLResponse(PAGE)


class HealthIsText(App):
    async def health(self) -> Response:
        return PlainTextResponse("OK")


class HealthHasWrongType(App):
    async def health(self) -> Response:
        return PlainTextResponse('{"healthy": true}')


class HealthSaysNo(App):
    async def health(self) -> Response:
        return JSONResponse({"healthy": False})


class HealthHangs(App):
    async def health(self) -> Response:
        await asyncio.sleep(60)
        return await super().health()


class RefusesTheRightKey(App):
    def allowed(self, request: Request) -> bool:
        return False


class RefusesInTheOldWay(RefusesTheRightKey):
    def refusal(self, request: Request) -> Response:
        return JSONResponse({"detail": {"error": {"code": "unauthorised"}}}, 400)


class HasNoKey(RefusesTheRightKey):
    def refusal(self, request: Request) -> Response:
        return JSONResponse({"detail": {"error": {"code": "missing_environment_api_key"}}}, 503)


class AcceptsAnyKey(App):
    def allowed(self, request: Request) -> bool:
        return True


class RefusesWithTheKeyInIt(App):
    def refusal(self, request: Request) -> Response:
        error = {"code": "unauthorised", "allowed_first15": [self.key[:15]]}
        return JSONResponse({"detail": {"error": error}}, 400)


class RefusesWithFiveHundred(App):
    def refusal(self, request: Request) -> Response:
        return JSONResponse({"detail": "KeyError"}, 500)


class InfoFails(App):
    async def info(self) -> Response:
        return JSONResponse({"detail": "boom"}, 500)


class InfoIsAList(App):
    async def info(self) -> Response:
        return JSONResponse([1, 2])


class PlaysTooFewTurns(App):
    limit_turns = 2


class HasNoTaskInfo(App):
    async def task_info(self, seeds: list[int]) -> Response:
        return JSONResponse({"detail": "Not Found"}, 404)


class IgnoresTheSeedList(App):
    async def task_info(self, seeds: list[int]) -> Response:
        return await super().task_info(seeds[:1])


class DescribesSomeSeeds(App):
    async def task_info(self, seeds: list[int]) -> Response:
        return await super().task_info(seeds if len(seeds) < 3 else seeds[:2])


class DescribesInItsOwnOrder(App):
    async def task_info(self, seeds: list[int]) -> Response:
        return await super().task_info(sorted(seeds, reverse=True))


class TaskInfoTakesOneSeed(App):
    async def task_info(self, seeds: list[int]) -> Response:
        if len(seeds) > 1:
            return JSONResponse({"detail": "one seed please"}, 500)
        return await super().task_info(seeds)


class HasFewSeeds(App):
    size = 2


class SamePromptForAllSeeds(App):
    def describe(self, seed: int) -> Json:
        return super().describe(seed) | {"task_metadata": {"seed": seed, "prompt": "Press."}}


class EvaluationIsTraining(App):
    """Its seeds repeat after ten."""

    def prompt(self, seed: int) -> str:
        return super().prompt(seed % 10)


class HasAnotherName(App):
    environment = "push"
