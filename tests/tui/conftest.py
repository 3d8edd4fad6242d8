from __future__ import annotations

import contextlib
import os
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

import pytest

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
