from __future__ import annotations

import contextlib
import os
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

import pytest

from tests.tui.app_driver import idle, run_in
from tests.tui.terminal_session import TerminalSession

ROOT = Path(__file__).resolve().parents[2]


@pytest.fixture
def terminal(tmp_path: Path) -> Iterator[Callable[..., TerminalSession]]:
    """`terminal(command, columns=…, rows=…, env=…)`: a TerminalSession in an empty home, ended with the test."""
    home = tmp_path / "home"
    places = {"HOME": home, "XDG_CONFIG_HOME": home / "config", "XDG_STATE_HOME": home / "state"}
    for folder in places.values():
        folder.mkdir(exist_ok=True)
    own = {name: str(folder) for name, folder in places.items()} | {"PYTHONPATH": str(ROOT)}
    with contextlib.ExitStack() as stack:

        def start(
            command: Sequence[str | os.PathLike[str]], *, env: Mapping[str, str | None] | None = None, **options: Any
        ) -> TerminalSession:
            options.setdefault("cwd", tmp_path)
            return stack.enter_context(TerminalSession(command, env=own | dict(env or {}), **options))

        yield start


@pytest.fixture(autouse=True)
def patient(monkeypatch: pytest.MonkeyPatch) -> None:
    """After `pilot.press` and `pilot.pause` the app has done what it was to do, however slow the machine is."""
    for module in ("app", "pilot"):
        monkeypatch.setattr(f"textual.{module}.wait_for_idle", idle)


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """An empty folder of runs; what the app keeps and reads of its own is beside it."""
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path / "state"))
    monkeypatch.setenv("XDG_CONFIG_HOME", str(tmp_path / "config"))
    runs = tmp_path / "runs"
    runs.mkdir()
    return runs


@pytest.fixture
def here(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Paths without a folder are of the test's own."""
    monkeypatch.chdir(tmp_path)


@pytest.fixture
def runs(tmp_path: Path) -> Path:
    """A folder with one run, alpha."""
    folder = tmp_path / "runs"
    folder.mkdir()
    run_in(folder, "alpha")
    return folder
