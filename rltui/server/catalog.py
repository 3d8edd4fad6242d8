"""What the server says of itself and of all its jobs together: health, machine, models, artifacts, services."""

from __future__ import annotations

import shutil
import time
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path

from starlette.concurrency import run_in_threadpool
from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Route

from rltui.server.answers import Refused, answer
from rltui.server.changes import changes
from rltui.server.damage import DAMAGED
from rltui.server.job import models
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
            "time": time.time(),
        }

    return answer(request, await run_in_threadpool(look))


async def list_models(request: Request) -> Response:
    found = await _models(request)
    after, limit = request.query_params.get("after"), whole(request, "limit", 50, 1_000)
    names = [model["id"] for model in found]
    found = found[names.index(after) + 1 if after in names else 0 :][:limit]
    return answer(request, {"data": found, "models": found})


async def one_model(request: Request) -> Response:
    wanted = request.path_params["model_id"]
    for model in await _models(request):
        if model["id"] == wanted:
            return answer(request, model)
    raise Refused(404, "not_found", f"no model {wanted[:200]!a} on this server")


async def list_artifacts(request: Request) -> Response:
    """Models alone: files of checkpoints are told by their job. The SDK's command reads the last three."""
    kind, status = request.query_params.get("type"), request.query_params.get("status")
    found = await _models(request) if kind in (None, "", "models") else []
    found = [model for model in found if status in (None, "", model["status"])]
    found = found[: whole(request, "limit", 50, 1_000)]
    names = {"fine_tuned_models": "ft:", "rl_models": "rl:"}
    kinds = {name: [model for model in found if model["id"].startswith(begin)] for name, begin in names.items()}
    return answer(request, {"artifacts": found, "data": found, **kinds, "summary": {"total_count": len(found)}})


async def service(request: Request) -> Response:
    return answer(request, {"training_start_url": f"{request.url.scheme}://{request.url.netloc}/api/rl/jobs"})


def no_route(method: str, path: str) -> Refused:
    """404 for a path below /api that leads nowhere."""
    if path.startswith(NOT_SUPPORTED):
        return Refused(404, "not_supported", f"this server trains by reinforcement learning alone: {path[:100]!a}")
    return Refused(404, "no_such_route", f"there is no {method[:10]} {path[:100]!a} here")


async def _models(request: Request) -> list[Json]:
    """Of all jobs, newest first."""
    jobs = jobs_of(request)

    def read() -> list[Json]:
        folders = [(row, jobs.folder(row.job_id)) for row in jobs.newest()]
        found = [model for row, folder in folders if folder is not None for model in _of(row, folder)]
        return sorted(found, key=lambda model: str(model["created_at"]), reverse=True)

    return await run_in_threadpool(read)


def _of(row: JobRow, folder: Path) -> list[Json]:
    """Of one job: nothing where its record cannot be read, which its own object tells."""
    try:
        return list(models(row, folder))
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
