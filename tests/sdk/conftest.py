"""A clean environment, and small servers that fail in the ways that a test asks for."""

from __future__ import annotations

import contextlib

import pytest
from starlette.applications import Starlette

from rltui.sdk.task.hosting import HostedApp, listen

VARIABLES = (
    "BACKEND_BASE_URL BACKEND_OVERRIDE SYNTH_BACKEND_URL_OVERRIDE LOCAL_BACKEND_URL DEV_BACKEND_URL PROD_BACKEND_URL "
    "SYNTH_API_KEY RLTUI_API_KEY TASK_APP_URL ENVIRONMENT_API_KEY ENVIRONMENT_API_KEY_ALIASES SYNTH_TASK_APP_URL "
    "SYNTH_TUNNEL_MODE SYNTH_TUNNEL_HOSTNAME SYNTH_TUNNEL_MAX_ATTEMPTS"
).split()


@pytest.fixture(autouse=True)
def clean(monkeypatch, tmp_path):
    for name in VARIABLES:
        monkeypatch.setenv(name, "")  # so that what a test sets is undone
        monkeypatch.delenv(name)
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path / "state"))


@pytest.fixture
def serving():
    """serving(routes) -> base URL of a server with these routes, which ends with the test."""
    with contextlib.ExitStack() as stack:

        def start(routes):
            listener = listen("127.0.0.1", 20000, find=True)
            hosted = HostedApp(Starlette(routes=routes), listener)
            hosted.start()
            stack.callback(hosted.stop)
            return f"http://127.0.0.1:{listener.getsockname()[1]}"

        yield start
