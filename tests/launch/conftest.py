from __future__ import annotations

from pathlib import Path

import pytest

from rltui.launch.base import Job
from tests.cli.conftest import CONFIG
from tests.server.conftest import Server

ROOT = Path(__file__).resolve().parents[2]
FAKE_RUNS = {"PYTHONPATH": f"{ROOT}:{ROOT}/tests/ssh/there", "FAKE_PACE_S": "0.02"}


@pytest.fixture
def here(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    for name in ("RLTUI_API_KEY", "SYNTH_API_KEY", "ENVIRONMENT_API_KEY"):
        monkeypatch.delenv(name, raising=False)
    (tmp_path / "my.toml").write_text(CONFIG.replace("http://127.0.0.1:9", "builtin:facts"))
    return tmp_path


@pytest.fixture
def server(here):
    """A real job server whose runs are fake ones."""
    (here / "server").mkdir()
    server = Server(here / "server", env=FAKE_RUNS)
    yield server
    server.stop()


@pytest.fixture
def job(here):
    return Job(here / "my.toml", None, "rl_0", environ={})
