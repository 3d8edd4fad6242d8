"""A small config in a folder of its own, and one check run on it."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

from rltui.preflight.base import Context, Found
from rltui.preflight.config import valid
from rltui.preflight.table import CHECKS
from rltui.samples import samples

BY_ID = {check.id: check for check in CHECKS}
Look = Callable[..., Found]


@pytest.fixture
def config(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """cpu.toml, beside which runs would be; what is kept of the user's own is beside it, too."""
    monkeypatch.chdir(tmp_path)
    for name in ("XDG_STATE_HOME", "XDG_CONFIG_HOME", "XDG_CACHE_HOME"):
        monkeypatch.setenv(name, str(tmp_path / name))
    for name in ("ENVIRONMENT_API_KEY", "HF_HUB_OFFLINE", "HF_HOME", "HF_HUB_CACHE", "OPENAI_API_KEY"):
        monkeypatch.delenv(name, raising=False)
    path = tmp_path / "cpu.toml"
    path.write_text(samples()["cpu_smoke"].read_text())
    return path


def context(config: Path, *sets: str, environ: dict[str, str] | None = None, run_dir: Path | None = None) -> Context:
    """Of a valid config. `environ`: beside what the fixture has set."""
    import os

    made = Context(config, sets, run_dir=run_dir, environ={**os.environ, **(environ or {})})
    assert valid(made).verdict in ("ok", "warn"), valid(made)
    return made


@pytest.fixture
def look(config: Path) -> Look:
    """`look("disk", "key=value", ...)`: what that check finds."""
    return lambda id, *sets, **more: BY_ID[id].run(context(config, *sets, **more))
