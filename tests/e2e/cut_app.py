"""A task app whose answers end in the middle."""

from starlette.applications import Starlette
from starlette.responses import JSONResponse, Response
from starlette.routing import Route


async def fine(_):
    return JSONResponse({"healthy": True, "taskset": {"sizes": {"train": 10}}})


async def cut(_):
    return Response(b'{"metrics": {"outcome_reward": ', media_type="application/json")


app = Starlette(routes=[Route("/health", fine), Route("/task_info", fine), Route("/rollout", cut, methods=["POST"])])
