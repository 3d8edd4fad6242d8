"""Every test with `opened` runs over each kind of `RunSource`: a folder read here, and one read over HTTP."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from rltui.backend import Backend
from rltui.sources.base import RunSource
from rltui.sources.http import HttpRunSource
from rltui.sources.local import LocalRunSource
from tests.server_reads.serving import Server, job_of, serving

KINDS = ("local", "http")


@pytest.fixture(scope="session")
def server() -> Iterator[Server]:
    with serving() as server:
        yield server


@pytest.fixture(scope="session")
def backend(server: Server) -> Iterator[Backend]:
    with Backend(server.url) as backend:
        yield backend


@pytest.fixture(params=KINDS)
def opened(request: pytest.FixtureRequest) -> Callable[..., RunSource]:
    """`opened(folder, clock=…)`."""
    if request.param == "local":
        return LocalRunSource
    backend = request.getfixturevalue("backend")
    return lambda folder, **options: HttpRunSource(backend, job_of(Path(folder)), **options)
