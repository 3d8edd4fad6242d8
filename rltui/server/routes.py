"""The routes of jobs: made, listed, looked at, ended, gone on with (WIRE 3.2)."""

from __future__ import annotations

import re
import time
from collections.abc import Callable
from typing import Any

import msgspec
from starlette.concurrency import run_in_threadpool
from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Route

from rltui.job_post import APP_KEY_HEADER
from rltui.server import history
from rltui.server.answers import Refused, answer, object_of
from rltui.server.auth import MAX_BODY
from rltui.server.damage import DAMAGED, refusal
from rltui.server.job import artifacts, document, present, seen, short
from rltui.server.jobs import Jobs
from rltui.server.read import body_of
from rltui.server.reads import PREFIXES
from rltui.server.table import JobRow
from trainer.rundir import control
from trainer.rundir.jsonl import Json, from_iso

MODES = {"graceful": "graceful", "now": "now", "stop": "graceful", "kill": "now"}
MAX_DEPTH = 64  # of a body: levels of objects and lists
_AGO = re.compile(r"(\d{1,9})([smhdw])")
_UNIT_S = {"s": 1, "m": 60, "h": 3_600, "d": 86_400, "w": 604_800}


def jobs_of(request: Request) -> Jobs:
    jobs: Jobs = request.app.state.jobs
    return jobs


async def create(request: Request) -> Response:
    body = await json_body(request)
    jobs, headers = jobs_of(request), request.headers
    if isinstance(body, dict):
        users = {name: headers[f"x-{name}-id"] for name in ("user", "org") if f"x-{name}-id" in headers}
        given = body.get("metadata") or {}
        if users and isinstance(given, dict):
            body = {**body, "metadata": {**given, **{f"{name}_id": text[:200] for name, text in users.items()}}}

    def make() -> tuple[Json, bool]:
        row, new = jobs.create(body, idempotency_key=headers.get("idempotency-key"), key=_key(request))
        return document(*jobs.row(row.job_id), jobs.place(row.job_id)), new

    found, new = await run_in_threadpool(make)
    return answer(request, found, 201 if new else 200)


async def listed(request: Request) -> Response:
    jobs = jobs_of(request)
    wanted = _filters(request, jobs)
    limit, after = whole(request, "limit", 20, 200), request.query_params.get("after")

    def read() -> Json:
        rows = [row for row in jobs.newest() if wanted(row) and jobs.folder(row.job_id) is not None]
        if after is not None:
            places = [i for i, row in enumerate(rows) if row.job_id == after]
            rows = rows[places[0] + 1 :] if places else _older(rows, jobs, after)
        folders = jobs.house.runs_dir
        found = [jobs.listing.of(row, folders / row.folder, jobs.place(row.job_id)) for row in rows[:limit]]
        more = len(rows) > limit
        return {"jobs": found, "data": found, "has_more": more, "next_cursor": rows[limit - 1].job_id if more else None}

    return answer(request, await run_in_threadpool(read))


def _older(rows: list[JobRow], jobs: Jobs, after: str) -> list[JobRow]:
    """Those after a job that the filters leave out by now."""
    row, _ = jobs.row(after)
    return [other for other in rows if (other.created_at, other.number) < (row.created_at, row.number)]


async def one(request: Request) -> Response:
    jobs = jobs_of(request)
    return await _of_job(request, lambda row, folder: document(row, folder, jobs.place(row.job_id)))


async def status(request: Request) -> Response:
    jobs = jobs_of(request)
    return await _of_job(request, lambda row, folder: short(row, seen(row, folder), jobs.place(row.job_id)))


async def start(request: Request) -> Response:
    """Jobs start by themselves."""
    return await one(request)


async def cancel(request: Request) -> Response:
    body = object_of(await json_body(request, empty={}))
    mode = MODES.get(str(body.get("mode") or "graceful"))
    if mode is None:
        raise Refused(422, "invalid", f"mode is {ascii(body['mode'])[:60]}; there are graceful and now")
    jobs = jobs_of(request)

    def end() -> Json:
        row, folder = jobs.cancel(request.path_params["job_id"], mode, _by(request, body))
        found = short(row, present(row, folder))
        return {name: found[name] for name in ("job_id", "status", "phase")}

    return answer(request, await run_in_threadpool(end))


async def steer(request: Request) -> Response:
    body = object_of(await json_body(request))
    action, args = body.get("action"), object_of(body.get("args") or {}, "args")
    if not isinstance(action, str) or action not in control.ACTIONS:
        raise Refused(
            422, "no_such_action", f"no action {ascii(action)[:60]}; there are {', '.join(sorted(control.ACTIONS))}"
        )
    job_id, by = request.path_params["job_id"], _by(request, body)
    try:
        control_id = await run_in_threadpool(jobs_of(request).control, job_id, action, args, by)
    except OSError as error:
        raise refusal(job_id, error) from None
    return answer(request, {"control_id": control_id, "state": "asked"}, 202)


async def resume(request: Request) -> Response:
    body = object_of(await json_body(request, empty={}))
    from_step, overrides = body.get("from"), object_of(body.get("overrides") or {}, "overrides")
    if from_step is not None and (type(from_step) is not int or from_step < 0):
        raise Refused(422, "invalid", f"from is {ascii(from_step)[:60]}; it wants the step of a checkpoint")
    jobs = jobs_of(request)

    job_id = request.path_params["job_id"]

    def go_on() -> Json:
        try:
            return document(*jobs.resume(job_id, from_step, overrides, _key(request)), jobs.place(job_id))
        except OSError as error:
            raise refusal(job_id, error) from None

    return answer(request, await run_in_threadpool(go_on), 201)


async def attempts(request: Request) -> Response:
    return await _of_job(request, lambda row, folder: {"runs": history.attempts(row, folder)})


async def timeline(request: Request) -> Response:
    limit = whole(request, "limit", 200, 5_000)

    def read(row: JobRow, folder: Any) -> Json:
        found = history.timeline(folder, limit)
        return {"events": found, "timeline": found}

    return await _of_job(request, read)


async def files(request: Request) -> Response:
    def read(row: JobRow, folder: Any) -> Json:
        found = list(artifacts(row, folder))
        return {"artifacts": found, "data": found}

    return await _of_job(request, read)


async def _of_job(request: Request, read: Any) -> Response:
    jobs, job_id = jobs_of(request), request.path_params["job_id"]
    try:
        return answer(request, await run_in_threadpool(lambda: read(*jobs.row(job_id))))
    except DAMAGED as error:
        raise refusal(job_id, error) from None


async def json_body(request: Request, empty: Any = None) -> Any:
    """The decoded body; `empty` where there is none and that is allowed. Raises Refused."""
    data = await body_of(request, MAX_BODY)
    if not data.strip() and empty is not None:
        return empty
    try:
        body = msgspec.json.decode(data)
    except (msgspec.MsgspecError, UnicodeDecodeError, RecursionError) as error:
        raise Refused(400, "malformed", f"the body is not JSON: {str(error)[:200]}") from None
    if _depth(body) > MAX_DEPTH:
        raise Refused(422, "too_deep", f"the body is nested too deeply: {MAX_DEPTH} levels at most")
    return body


def _depth(body: Any) -> int:
    """Levels of objects and lists, counted up to one more than is allowed."""
    depth, level = 0, [body]
    while depth <= MAX_DEPTH:
        level = [node for node in level if isinstance(node, dict | list)]
        if not level:
            break
        depth += 1
        level = [item for node in level for item in (node.values() if isinstance(node, dict) else node)]
    return depth


def whole(request: Request, name: str, default: int, most: int) -> int:
    """A count of the query. What is no number is the default: old clients send all kinds."""
    text = request.query_params.get(name, "")
    return max(1, min(int(text), most)) if text.isascii() and text.isdigit() and len(text) < 10 else default


def _filters(request: Request, jobs: Jobs) -> Callable[[JobRow], bool]:
    query = request.query_params
    least, most = _moment(query.get("created_after")), _moment(query.get("created_before"))

    def wanted(row: JobRow) -> bool:
        return (
            (not query.get("status") or query["status"] == jobs.word(row))
            and query.get("model") in (None, "", row.model)
            and query.get("type") in (None, "", "rl")
            and _has_tag(row, query.get("tag"))
            and (least is None or row.created_at > least)
            and (most is None or row.created_at < most)
        )

    return wanted


def _has_tag(row: JobRow, tag: str | None) -> bool:
    """`name` or `name=value`."""
    if not tag:
        return True
    name, equals, value = tag.partition("=")
    return name in row.tags and (not equals or str(row.tags[name]) == value)


def _moment(text: str | None) -> float | None:
    """Epoch seconds, ISO 8601, or how long ago: 24h. Raises Refused."""
    if not text:
        return None
    if (ago := _AGO.fullmatch(text)) is not None:
        return time.time() - int(ago[1]) * _UNIT_S[ago[2]]
    for read in (float, from_iso):
        try:
            return read(text)
        except ValueError:
            continue
    raise Refused(422, "invalid", f"{ascii(text)[:60]} is no time: give epoch seconds, ISO 8601, or 24h")


def _key(request: Request) -> str | None:
    key = request.headers.get(APP_KEY_HEADER, "").strip()
    return key or None


def _by(request: Request, body: Json) -> Json:
    """Who asks, as far as they say: for what a run notes of its requests."""
    client = str(body.get("client") or request.headers.get("user-agent") or "")[:100]
    return {
        "user": None,
        "host": None if request.client is None else request.client.host,
        "pid": None,
        "client": client,
    }


_JOB = (
    ("GET", "", one),
    ("GET", "/status", status),
    ("POST", "/start", start),
    ("POST", "/cancel", cancel),
    ("POST", "/control", steer),
    ("POST", "/resume", resume),
    ("GET", "/runs", attempts),
    ("GET", "/timeline", timeline),
    ("GET", "/artifacts", files),
)

routes = [
    *(Route(prefix, create, methods=["POST"]) for prefix in PREFIXES),
    *(Route(prefix, listed, methods=["GET"]) for prefix in PREFIXES),
    *(
        Route(f"{prefix}/{{job_id}}{path}", handle, methods=[method])
        for prefix in PREFIXES
        for method, path, handle in _JOB
    ),
]
