"""Serves a task app over HTTP (WIRE 1.1, 1.7): `TaskAppConfig` -> `create_task_app` -> `run_task_app`."""

from __future__ import annotations

import contextlib
import inspect
import ipaddress
import logging
import os
import secrets
from collections.abc import AsyncIterator, Awaitable, Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import uvicorn
from pydantic import ValidationError
from starlette.applications import Starlette
from starlette.concurrency import run_in_threadpool
from starlette.exceptions import HTTPException
from starlette.middleware import Middleware
from starlette.middleware.cors import CORSMiddleware
from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import BaseRoute, Route

from trainer.taskapp import auth
from trainer.taskapp.answers import InvalidAnswer, finish_answer, to_json
from trainer.taskapp.contracts import RolloutRequest
from trainer.taskapp.envfile import load_env_file
from trainer.taskapp.errors import TaskAppError
from trainer.taskapp.proxy import ProxyConfig, Vendor, relay, vendors
from trainer.taskapp.reading import mapping
from trainer.taskapp.replies import json_response, read_json, refuse
from trainer.taskapp.slow import Timely

log = logging.getLogger("trainer.taskapp")

GRACE_S = 1
PROVIDER_KEYS = ("OPENAI_API_KEY", "GROQ_API_KEY", "ANTHROPIC_API_KEY")

Hook = Callable[[], Any]
Handler = Callable[[RolloutRequest, Request], Any]
Endpoint = Callable[[Request], Awaitable[Response]]


@dataclass(frozen=True, slots=True)
class TaskAppConfig:
    """A task app as its author writes it.

    base_task_info: parts of TaskInfo that all instances share. describe_taskset() -> mapping, with
    `sizes {split: n}` if the set is finite. provide_task_instances(seeds) -> a TaskInfo or mapping per seed.
    rollout(request, http_request) -> a model or mapping. Each may be a plain or an async function.
    dataset_registry: kept for the app, at `http_request.app.state.dataset_registry`.
    proxy: serves /proxy/... with our own vendor keys. routers: further Starlette routes, or objects with
    `.routes`; behind the key as everything is.
    """

    app_id: str
    name: str
    description: str
    base_task_info: Any
    describe_taskset: Callable[[], Any]
    provide_task_instances: Callable[[Sequence[int]], Any]
    rollout: Handler
    dataset_registry: Any = None
    rubrics: Any = None
    proxy: ProxyConfig | Mapping[str, Any] | None = None
    routers: Sequence[Any] = ()
    app_state: Mapping[str, Any] = field(default_factory=dict)
    require_api_key: bool = True
    expose_debug_env: bool = False
    cors_origins: Sequence[str] | None = None
    startup_hooks: Sequence[Hook] = ()
    shutdown_hooks: Sequence[Hook] = ()


def create_task_app(config: TaskAppConfig) -> Starlette:
    """The ASGI app of `config`."""
    routes: list[BaseRoute] = [
        Route("/", _guarded(config, _root(config), open_to_all=True), methods=["GET", "HEAD"]),
        Route("/health", _guarded(config, _health(config))),
        Route("/info", _guarded(config, _info(config))),
        Route("/task_info", _guarded(config, _task_info(config))),
        Route("/rollout", _guarded(config, _rollout(config)), methods=["POST"]),
        Route("/done", _guarded(config, _done(config)), methods=["POST"]),
    ]
    if config.expose_debug_env:
        routes.append(Route("/debug/env", _guarded(config, _debug_env)))
    if config.proxy is not None:
        proxy = config.proxy if isinstance(config.proxy, ProxyConfig) else ProxyConfig(**config.proxy)
        for vendor in vendors(proxy):
            endpoint = _guarded(config, _proxy(vendor, proxy.system_hint))
            routes.extend(Route(path, endpoint, methods=["POST"]) for path in vendor.paths)
    for router in config.routers:
        routes.extend(_behind_key(config, router))

    @contextlib.asynccontextmanager
    async def lifespan(_: Starlette) -> AsyncIterator[None]:
        for hook in config.startup_hooks:
            await _call(hook)
        yield
        for hook in config.shutdown_hooks:
            await _call(hook)

    middleware = []
    if config.cors_origins:
        origins = list(config.cors_origins)
        middleware.append(Middleware(CORSMiddleware, allow_origins=origins, allow_methods=["*"], allow_headers=["*"]))
    app = Starlette(
        routes=routes,
        middleware=middleware,
        lifespan=lifespan,
        exception_handlers={HTTPException: _http_error},
    )
    app.state.task_app_config = config
    app.state.dataset_registry = config.dataset_registry
    for name, value in config.app_state.items():
        setattr(app.state, name, value)
    return app


def check_bind(host: str, *, has_key: bool) -> None:
    """Only loopback addresses may be served without a key."""
    try:
        loopback = host == "localhost" or ipaddress.ip_address(host).is_loopback
    except ValueError:
        loopback = False
    if not loopback and not has_key:
        raise TaskAppError(
            f"refusing to serve on {host} without a key",
            "Set ENVIRONMENT_API_KEY, or bind 127.0.0.1",
        )


def server_config(app: Any, **options: Any) -> uvicorn.Config:
    """uvicorn as task apps want it: no access log, warnings only, quick to end, no patience with half a request."""
    return uvicorn.Config(
        app, http=Timely, log_level="warning", access_log=False, timeout_graceful_shutdown=GRACE_S, **options
    )


def run_task_app(
    factory: Callable[[], TaskAppConfig | Any],
    *,
    host: str = "127.0.0.1",
    port: int = 8001,
    env_files: Sequence[str | Path] = (),
) -> None:
    """Serves what `factory` builds (a TaskAppConfig or an ASGI app) until SIGINT or SIGTERM.

    env_files: `NAME=value` files whose variables are set first, where the environment lacks them. Raises
    TaskAppError: such a file cannot be read, or `host` is no loopback address and there is no key.
    """
    for path in env_files:
        load_env_file(Path(path))
    check_bind(host, has_key=bool(auth.valid_keys()))
    built = factory()
    app = create_task_app(built) if isinstance(built, TaskAppConfig) else built
    uvicorn.Server(server_config(app, host=host, port=port)).run()


def _guarded(config: TaskAppConfig, endpoint: Endpoint, *, open_to_all: bool = False) -> Endpoint:
    """The endpoint behind the key; its exceptions become a JSON 500 whose traceback stays in the log."""

    async def guarded(request: Request) -> Response:
        if config.require_api_key and not open_to_all:
            _check_key(request)
        try:
            return await endpoint(request)
        except HTTPException:
            raise
        except Exception:  # of the app's own code, whatever it is
            error_id = secrets.token_hex(6)
            log.exception("error %s in %s %s", error_id, request.method, request.url.path)
            message = f"the task app failed; its log has the cause under {error_id}"
            raise refuse(500, "internal_error", message, error_id=error_id) from None

    return guarded


def _behind_key(config: TaskAppConfig, router: Any) -> Iterable[BaseRoute]:
    for route in getattr(router, "routes", None) or [router]:
        if isinstance(route, Route) and inspect.iscoroutinefunction(route.endpoint):
            yield Route(route.path, _guarded(config, route.endpoint), methods=list(route.methods or ["GET"]))
        else:
            raise TypeError(f"routers take Starlette routes with async functions, not {route!r}")


def _check_key(request: Request) -> None:
    valid = auth.valid_keys()
    if not valid:
        raise refuse(503, "missing_environment_api_key", "the server has no ENVIRONMENT_API_KEY")
    if not auth.accepts(valid, auth.keys_of_request(request.headers)):
        # The two empty lists are there for clients that read them; no key material ever leaves.
        raise refuse(
            400,
            "unauthorised",
            "API key missing or invalid",
            allowed_first15=[],
            allowed_count=len(valid),
            got_first15=[],
        )


def _root(config: TaskAppConfig) -> Endpoint:
    async def root(_: Request) -> Response:
        return json_response({"status": "ok", "service": config.app_id})

    return root


def _health(config: TaskAppConfig) -> Endpoint:
    async def health(_: Request) -> Response:
        return json_response({"healthy": True, "auth": {"required": config.require_api_key, "expected_prefix": None}})

    return health


def _info(config: TaskAppConfig) -> Endpoint:
    async def info(_: Request) -> Response:
        base = mapping(to_json(config.base_task_info))
        return json_response(
            {
                "service": {"task": base.get("task"), "version": mapping(base.get("task")).get("version")},
                "dataset": base.get("dataset"),
                "rubrics": to_json(config.rubrics),
                "inference": base.get("inference"),
                "limits": base.get("limits"),
            }
        )

    return info


def _task_info(config: TaskAppConfig) -> Endpoint:
    async def task_info(request: Request) -> Response:
        texts = [*request.query_params.getlist("seed"), *request.query_params.getlist("seeds")]
        try:
            seeds = [int(text) for text in texts]
        except ValueError:
            raise refuse(422, "bad_seed", "seed must be a whole number") from None
        if not seeds:
            return json_response({"taskset": to_json(await _call(config.describe_taskset))})
        base = mapping(to_json(config.base_task_info))
        instances = await _call(config.provide_task_instances, seeds)
        merged = [{**base, **to_json(instance)} for instance in instances]
        if len(seeds) == 1 and not merged:
            raise refuse(422, "seed_out_of_range", f"the task app has no instance of seed {seeds[0]}")
        return json_response(merged[0] if len(seeds) == 1 else merged)

    return task_info


def _rollout(config: TaskAppConfig) -> Endpoint:
    async def rollout(request: Request) -> Response:
        parsed = await _read_request(request)
        result = await _call(config.rollout, parsed, request)
        try:
            return json_response(finish_answer(result, parsed))
        except InvalidAnswer as error:
            log.error("the rollout handler of %s returned an invalid answer: %s", config.app_id, error)
            message = f"the rollout handler returned an invalid answer: {error}"
            raise refuse(500, "invalid_rollout_response", message, fields=error.fields) from None

    return rollout


async def _read_request(request: Request) -> RolloutRequest:
    try:
        return RolloutRequest.model_validate(await read_json(request))
    except ValidationError as error:
        fields = error.errors(include_url=False, include_input=False, include_context=False)
        detail = [{**item, "loc": ["body", *item["loc"]]} for item in fields]
        raise HTTPException(422, detail=detail) from None  # type: ignore[arg-type]  # as in `refuse`


def _proxy(vendor: Vendor, hint: str | None) -> Endpoint:
    async def proxy(request: Request) -> Response:
        body = await read_json(request)
        if not isinstance(body, dict):
            raise refuse(400, "bad_request", "the request body is not an object")
        return await relay(body, vendor, hint)

    return proxy


def _done(config: TaskAppConfig) -> Endpoint:
    async def done(_: Request) -> Response:
        return json_response({"ok": True, "service": config.app_id})

    return done


async def _debug_env(_: Request) -> Response:
    return json_response({name: bool(os.environ.get(name)) for name in (*auth.KEY_NAMES, *PROVIDER_KEYS)})


async def _http_error(_: Request, error: Exception) -> Response:
    assert isinstance(error, HTTPException)
    return json_response({"detail": error.detail}, error.status_code, error.headers)


async def _call(function: Callable[..., Any], *args: Any) -> Any:
    """Calls a plain function in a thread, so that it blocks no other episode, and awaits an async one."""
    if inspect.iscoroutinefunction(function) or inspect.iscoroutinefunction(
        getattr(function, "__call__", None)  # noqa: B004
    ):
        return await function(*args)
    result = await run_in_threadpool(function, *args)
    return await result if inspect.isawaitable(result) else result
