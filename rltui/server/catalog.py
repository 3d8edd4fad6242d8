"""What the server says of itself and of all its jobs together: health, machine, models, artifacts, services."""

from __future__ import annotations

import shutil
from collections.abc import Callable, Iterable
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import Any

from starlette.concurrency import run_in_threadpool
from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Route

from rltui.server.answers import Refused, answer
from rltui.server.changes import changes
from rltui.server.damage import DAMAGED
from rltui.server.job import artifacts, models
from rltui.server.routes import jobs_of, whole
from rltui.server.table import JobRow
from rltui.server.verify import verify
from trainer.config.machine import gpu_name
from trainer.rundir.jsonl import Json

API = 1
FEATURES = ("rl", "sse", "resume", "control", "rollouts", "artifacts_range", "read", "idempotency")
# Routes of the SDK whose services are not here: they are known, and say so (WIRE 3.2).
NOT_SUPPORTED = (
    "/prompt-learning",
    "/prompt_learning",
    "/learning/files",
    "/files",
    "/inference",
    "/v1/chat",
    "/pricing",
    "/balance",
    "/sft",
    "/graphgen",
    "/graph_evolve",
    "/tracing",
    "/eval",
    "/research-agent",
)


def version_of_us() -> str:
    try:
        return version("rltui")
    except PackageNotFoundError:  # run from a folder
        return "0"


async def health(request: Request) -> Response:
    return answer(request, {"status": "ok"})


async def about(request: Request) -> Response:
    return answer(request, {"name": "rltui", "version": version_of_us(), "api": API, "features": list(FEATURES)})


async def system(request: Request) -> Response:
    jobs = jobs_of(request)

    def look() -> Json:
        import psutil

        memory, disk = psutil.virtual_memory(), shutil.disk_usage(jobs.house.runs_dir)
        return {
            "gpus": [{"index": name, "name": gpu_name()} for name in jobs.places.gpus],
            "cpus": psutil.cpu_count(),
            "memory": {"total_bytes": memory.total, "available_bytes": memory.available},
            "disk": {"total_bytes": disk.total, "free_bytes": disk.free},
            "runs_dir": str(jobs.house.runs_dir),
            "allow_code": jobs.house.allow_code,
            "queue": jobs.queue(),
        }

    return answer(request, await run_in_threadpool(look))


async def list_models(request: Request) -> Response:
    found = await _all(request, models)
    found.sort(key=lambda model: str(model["created_at"]), reverse=True)
    after, limit = request.query_params.get("after"), whole(request, "limit", 50, 1_000)
    names = [model["id"] for model in found]
    found = found[names.index(after) + 1 if after in names else 0 :][:limit]
    return answer(request, {"data": found, "models": found})


async def one_model(request: Request) -> Response:
    wanted = request.path_params["model_id"]
    for model in await _all(request, models):
        if model["id"] == wanted:
            return answer(request, model)
    raise Refused(404, "not_found", f"no model {wanted[:200]!a} on this server")


async def list_artifacts(request: Request) -> Response:
    found = await _all(request, artifacts)
    kind, status = request.query_params.get("type"), request.query_params.get("status")
    words = {row.job_id: jobs_of(request).word(row) for row in jobs_of(request).newest()} if status else {}
    found = [
        item for item in found if kind in (None, "", item["kind"]) and status in (None, "", words.get(item["job_id"]))
    ]
    found = found[: whole(request, "limit", 50, 1_000)]
    return answer(request, {"artifacts": found, "data": found})


async def service(request: Request) -> Response:
    return answer(request, {"training_start_url": f"{request.url.scheme}://{request.url.netloc}/api/rl/jobs"})


def no_route(method: str, path: str) -> Refused:
    """404 for a path below /api that leads nowhere."""
    if path.startswith(NOT_SUPPORTED):
        return Refused(404, "not_supported", f"this server trains by reinforcement learning alone: {path[:100]!a}")
    return Refused(404, "no_such_route", f"there is no {method[:10]} {path[:100]!a} here")


async def _all(request: Request, of: Callable[[JobRow, Path], Iterable[Json]]) -> list[Any]:
    jobs = jobs_of(request)

    def read() -> list[Any]:
        folders = [(row, jobs.folder(row.job_id)) for row in jobs.newest()]
        return [item for row, folder in folders if folder is not None for item in _whole(of, row, folder)]

    return await run_in_threadpool(read)


def _whole(of: Callable[[JobRow, Path], Iterable[Json]], row: JobRow, folder: Path) -> list[Json]:
    """Of one job: nothing where its record cannot be read, which its own object tells."""
    try:
        return list(of(row, folder))
    except DAMAGED:
        return []


before = [Route("/jobs/stream", changes)]  # of `/jobs/{job_id}`
routes = [
    Route("/health", health),
    Route("/version", about),
    Route("/system", system),
    Route("/rl/verify_task_app", verify, methods=["POST"]),
    Route("/rl/services/{trainer_id}", service),
    *(Route(path, list_models) for path in ("/models", "/learning/models", "/learning/models/rl")),
    Route("/artifacts", list_artifacts),
    *(
        Route(f"{path}/{{model_id:path}}", one_model)
        for path in ("/learning/models/rl", "/learning/models", "/models", "/artifacts/models")
    ),
]
