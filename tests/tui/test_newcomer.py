"""From an empty folder to a run that learns, in a real tmux, by keys that the screen names.

Every key is looked for on the screen, with the word that says what it does, before it is pressed; only the arrow that
moves a cursor, and what is typed into a line, need no name.
"""

from __future__ import annotations

import json
import re
import shlex
import shutil
import subprocess
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from rltui.sources.base import TERMINAL
from rltui.sources.local import LocalRunSource
from tests.tui.pty_app import RLTUI, ROOT

WAIT_S = 300.0  # the machine of a test may be slow
POLL_S = 0.1


class Person:
    """Looks at a tmux pane and types into it."""

    def __init__(self, folder: Path, socket: Path) -> None:
        self._tmux = ["tmux", "-S", str(socket), "-f", "/dev/null"]
        names = {"HOME": "home", "XDG_STATE_HOME": "state", "XDG_CONFIG_HOME": "config", "XDG_CACHE_HOME": "cache"}
        places = [f"{name}={socket.parent / part}" for name, part in names.items()]
        plain = ["env", "-u", "COLUMNS", "-u", "LINES", f"PYTHONPATH={ROOT}", "COLORTERM=truecolor"]
        command = shlex.join([*plain, *places, *RLTUI])
        size = ["-x", "110", "-y", "34"]
        self._run("new-session", "-d", *size, "-c", str(folder), command)

    def _run(self, *words: str) -> str:
        return subprocess.run([*self._tmux, *words], capture_output=True, text=True, check=True, timeout=30).stdout

    def sees(self) -> str:
        return self._run("capture-pane", "-p")

    def waits_for(self, pattern: str) -> str:
        deadline = time.monotonic() + WAIT_S
        while re.search(pattern, text := self.sees()) is None:
            assert time.monotonic() < deadline, f"never: {pattern}\n{text}"
            time.sleep(POLL_S)
        return text

    def presses(self, key: str, label: str) -> None:
        """A key that the screen names with this label, as soon as it does."""
        self.waits_for(rf"(?m)(?:^|\s){re.escape(key)} {re.escape(label)}(?:[\s,]|$)")
        self._run("send-keys", *(["Enter"] if key == "enter" else ["-l", key]))

    def types(self, text: str) -> None:
        self._run("send-keys", "-l", text)

    def sends(self, *names: str) -> None:
        self._run("send-keys", *names)

    def leaves(self) -> None:
        subprocess.run([*self._tmux, "kill-server"], capture_output=True)


@pytest.fixture
def person(tmp_path: Path) -> Iterator[Person]:
    folder = tmp_path / "work"
    folder.mkdir()
    person = Person(folder, tmp_path / "socket")
    yield person
    person.leaves()
    for run in (folder / "runs").glob("*-rl_*"):
        if (LocalRunSource(run).status() or {}).get("state") not in TERMINAL:
            LocalRunSource(run).kill()


@pytest.mark.slow
@pytest.mark.skipif(shutil.which("tmux") is None, reason="tmux is not installed")
def test_a_newcomer_starts_a_run(person: Person, tmp_path: Path) -> None:
    person.waits_for("No runs under")
    person.presses("+", "new config")
    person.waits_for("preset +cpu_smoke")
    person.sends("Down")
    person.presses("enter", "open")
    person.waits_for(r"cpu_smoke\.toml")

    person.presses("/", "find")
    person.types("model_name")
    person.presses("enter", "apply")
    person.waits_for("1 of 1[0-9]+ fields")
    person.presses("enter", "edit")
    person.waits_for("enter accept")
    person.sends(*["BSpace"] * len("smollm2-135m"))
    person.types("tiny")
    person.presses("enter", "accept")
    person.waits_for("~ policy.model_na")

    person.presses("s", "save")
    person.waits_for(r"save as +cpu_smoke\.toml")
    person.presses("enter", "apply")
    person.presses("enter", "writes it")
    person.waits_for("saved ")
    saved = tmp_path / "work" / "cpu_smoke.toml"
    text = saved.read_text()
    assert 'model_name = "builtin:tiny"      ' in text and "# CPU smoke" in text  # comments stay

    person.presses("L", "launch")
    person.waits_for("Preflight .* ready, ")
    person.presses("enter", "launch")
    person.waits_for(r"step [1-3]/3")
    (run,) = (tmp_path / "work" / "runs").glob("cpu-smoke-rl_*")
    assert json.loads((run / "status.json").read_text())["step"] >= 1
