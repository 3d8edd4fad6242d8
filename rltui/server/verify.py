"""`POST /rl/verify_task_app`: the health gate of a task app, from where its run would be (WIRE 1.3, 3.2)."""

from __future__ import annotations

from starlette.concurrency import run_in_threadpool
from starlette.requests import Request
from starlette.responses import Response

from rltui.job_post import APP_KEY_HEADER
from rltui.server.answers import Refused, answer
from rltui.server.keys import to_trust
from rltui.server.routes import jobs_of, json_body
from rltui.server.urls import origin_of, why_not
from trainer.rundir.jsonl import Json
from trainer.taskapp.auth import valid_keys
from trainer.taskapp.errors import TaskAppError


async def verify(request: Request) -> Response:
    """200 also where the app is down: `any_ok` tells, and each attempt has its reason."""
    body = await json_body(request)
    url = body.get("endpoint_base_url") if isinstance(body, dict) else None
    if not isinstance(url, str) or not url:
        raise Refused(422, "invalid", "endpoint_base_url is missing: the address of a task app")
    if (why := await run_in_threadpool(why_not, url)) is not None:
        raise Refused(422, "url_not_allowed", f"endpoint_base_url cannot be called: {why}")
    key = request.headers.get(APP_KEY_HEADER, "").strip()
    trusted = origin_of(url) in jobs_of(request).house.trusted
    keys = [key] if key else valid_keys() if trusted else []
    attempts = await attempts_at(url.rstrip("/"), keys)
    any_ok = all(attempt["ok"] for attempt in attempts)
    return answer(request, {"any_ok": any_ok, "attempts": attempts, "candidates_first15": []})


async def attempts_at(url: str, keys: list[str]) -> list[Json]:
    """What the gate of a run would see: the same retries, and the same redirects. Raises Refused."""
    from trainer.taskapp.client import TaskAppClient

    try:
        async with TaskAppClient(url, api_key=keys[0] if keys else None, aliases=keys[1:]) as app:
            found = await app.gate()
    except TaskAppError as error:
        raise Refused(422, "invalid", f"{error.message}; {error.hint}") from None
    return [_attempt(f"{url}{path}", words, bool(keys)) for path, (words, _) in found.items()]


def _attempt(url: str, words: str, with_key: bool) -> Json:
    """`words`: a status, or what came in its place."""
    attempt: Json = {"url": url, "status": int(words) if words.isdigit() else None, "ok": words == "200"}
    if not attempt["ok"]:
        attempt["error"] = _why(words, url, with_key)
    return attempt


def _why(words: str, url: str, with_key: bool) -> str:
    if words in ("400", "401", "403"):
        if with_key:
            return f"status {words}: the app rejected ENVIRONMENT_API_KEY"
        return f"status {words}: no key was sent; set ENVIRONMENT_API_KEY where the client runs, or {to_trust(url)}"
    return f"status {words}" if words[0].isdigit() else words if words.startswith("no ") else f"no answer: {words}"
