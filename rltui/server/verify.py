"""`POST /rl/verify_task_app`: the health gate of a task app, from where its run would be (WIRE 1.3, 3.2)."""

from __future__ import annotations

import asyncio
from typing import Any

from starlette.concurrency import run_in_threadpool
from starlette.requests import Request
from starlette.responses import Response

from rltui.server.answers import Refused, answer
from rltui.server.keys import to_trust
from rltui.server.routes import KEY_HEADER, jobs_of, json_body
from rltui.server.urls import origin_of, why_not
from trainer.rundir.jsonl import Json
from trainer.taskapp.auth import auth_headers, valid_keys

PATHS = ("/health", "/task_info")
TIMEOUT_S = 10.0


async def verify(request: Request) -> Response:
    """200 also where the app is down: `any_ok` tells, and each attempt has its reason."""
    body = await json_body(request)
    url = body.get("endpoint_base_url") if isinstance(body, dict) else None
    if not isinstance(url, str) or not url:
        raise Refused(422, "invalid", "endpoint_base_url is missing: the address of a task app")
    if (why := await run_in_threadpool(why_not, url)) is not None:
        raise Refused(422, "url_not_allowed", f"endpoint_base_url cannot be called: {why}")
    key = request.headers.get(KEY_HEADER, "").strip()
    trusted = origin_of(url) in jobs_of(request).house.trusted
    keys = [key] if key else valid_keys() if trusted else []
    attempts = [await _attempt(f"{url.rstrip('/')}{path}", keys) for path in PATHS]
    any_ok = all(attempt["ok"] for attempt in attempts)
    return answer(request, {"any_ok": any_ok, "attempts": attempts, "candidates_first15": []})


async def _attempt(url: str, keys: list[str]) -> Json:
    import httpx

    from rltui.smoke.net import is_loopback

    found: Json = {"url": url, "status": None, "ok": False}
    try:
        async with (
            asyncio.timeout(TIMEOUT_S),  # of the whole answer: the client's own is of each byte
            httpx.AsyncClient(timeout=TIMEOUT_S, trust_env=not is_loopback(url)) as client,
            client.stream("GET", url, headers=auth_headers(keys)) as response,  # its body is not needed
        ):
            found["status"] = response.status_code
    except (httpx.HTTPError, httpx.InvalidURL, ValueError, OSError) as error:  # TimeoutError is an OSError
        found["error"] = f"no answer: {type(error).__name__}"
        return found
    found["ok"] = found["status"] == 200
    if not found["ok"]:
        found["error"] = _why(found["status"], url, bool(keys))
    return found


def _why(status: Any, url: str, with_key: bool) -> str:
    if status in (400, 401, 403):
        if with_key:
            return f"status {status}: the app rejected ENVIRONMENT_API_KEY"
        return f"status {status}: no key was sent; set ENVIRONMENT_API_KEY where the client runs, or {to_trust(url)}"
    return f"status {status}: redirects are not followed" if 300 <= status < 400 else f"status {status}"
