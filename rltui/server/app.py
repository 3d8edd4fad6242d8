"""The job server as one ASGI app: routes of jobs, of reading, and of the server itself, behind one guard (WIRE 3)."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

from starlette.applications import Starlette
from starlette.exceptions import HTTPException
from starlette.middleware import Middleware
from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Mount

from rltui.server import catalog, reads, routes
from rltui.server.answers import Refused
from rltui.server.auth import Access, Guard
from rltui.server.faults import Faults
from rltui.server.jobs import Jobs
from rltui.server.reading import reading


def job_server(jobs: Jobs, access: Access) -> Starlette:
    """`app.state.jobs` is what the handlers work on. Its thread lives as long as the app."""

    @asynccontextmanager
    async def life(app: Starlette) -> AsyncIterator[None]:
        jobs.open()
        try:
            yield
        finally:
            reading(app).close()
            jobs.close()

    api = [*catalog.before, *routes.routes, *reads.routes, *catalog.routes]
    app = Starlette(
        routes=[Mount("/api", routes=api)],
        middleware=[Middleware(Faults), Middleware(Guard, access=access)],
        exception_handlers={Refused: _refused, HTTPException: _http},
        lifespan=life,
    )
    app.state.jobs = jobs
    return app


async def _refused(request: Request, error: Exception) -> Response:
    assert isinstance(error, Refused)
    return error.response()


async def _http(request: Request, error: Exception) -> Response:
    """Starlette's own: no such route, no such method."""
    assert isinstance(error, HTTPException)
    if error.status_code == 404:
        return catalog.no_route(request.method, request.url.path.removeprefix("/api")).response()
    return Refused(error.status_code, "no_such_method", f"{request.method[:10]} is not served here").response()
