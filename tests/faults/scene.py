"""One run as the harness holds it: its folder, its processes, what was put into it and what was found wrong."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from tests.e2e.conftest import CONFIG
from tests.faults.machine import MARK, VLLM, WORDS, has_words, marked, runs
from tests.faults.plan import COMMON, Injection, Plan
from tests.faults.seen import Seen

HERE = Path(__file__).parent
ROOT = HERE.parent.parent
START_S, END_S, STILL_S, ORPHAN_S = 400.0, 90.0, 150.0, 20.0  # on a busy machine


@dataclass
class Outcome:
    seed: int
    injections: list[str] = field(default_factory=list)
    moments: list[str] = field(default_factory=list)  # of each injection
    losses: list[str] = field(default_factory=list)
    hangs: list[str] = field(default_factory=list)
    orphans: list[str] = field(default_factory=list)
    attempts: int = 0
    seconds: float = 0.0


class Scene:
    def __init__(self, plan: Plan, folder: Path) -> None:
        self.plan, self.folder = plan, folder
        self.config = folder / "run.toml"
        self.config.write_text(CONFIG.replace(str(ROOT / "tests/e2e/digit_app.py"), str(HERE / "app.py")))
        self.sets = [*COMMON, *plan.sets]
        self.outcome = Outcome(plan.seed)
        self.met: list[str] = []  # kinds injected in this attempt
        self.asked_to_end = False  # by us, in this attempt
        self.asks = {name: folder / f"ask_{name}" for name in ("app", "judge")}
        for asks in self.asks.values():
            asks.mkdir()
        self._mark = f"{plan.seed}-{os.getpid()}"
        self.env = {
            **os.environ,
            MARK: self._mark,
            "PYTHONPATH": f"{HERE / 'clock'}{os.pathsep}{ROOT}",
            "RLTUI_FAULTS_APP": str(self.asks["app"]),
            "RLTUI_FAULTS_CLOCK": str(folder / "clock"),
        }
        self.process: subprocess.Popen[bytes] | None = None
        self.pid = self.viewer = 0
        self._words = WORDS | VLLM if plan.on_vllm else WORDS
        self.begin("run")

    def begin(self, name: str) -> None:
        """A run of that name is the one that goes on from here."""
        self.run_dir = self.folder / name
        self.seen = Seen(self.run_dir)
        self.damaged: set[tuple[str, int]] = set()
        self.left_over: list[str] = []  # ids of requests that were asked of an attempt that had ended
        self.from_step: int | None = None  # where the next attempt is to go on, if not from the newest checkpoint
        self.seconds = 0.0  # that its attempts took

    def argv(self, *options: str, program: tuple[str, ...] = ("-m", "trainer", "run")) -> list[str]:
        return [sys.executable, *program, *options]

    def call(self, words: list[str], **env: str) -> subprocess.CompletedProcess[str]:
        return subprocess.run(
            words, capture_output=True, text=True, env={**self.env, **env}, cwd=self.folder, timeout=END_S
        )

    def alive(self) -> bool:
        if self.process is not None:
            return self.process.poll() is None
        return runs(self.pid)  # a child of the viewer's

    def processes(self) -> dict[int, list[str]]:
        return marked(self._mark, self.pid)

    def pid_of(self, role: str) -> int | None:
        found = (pid for pid, words in self.processes().items() if has_words(words, self._words[role]))
        return min(found, default=None)

    def end_all(self) -> None:
        for pid in self.processes():
            with suppress(ProcessLookupError):
                os.kill(pid, signal.SIGKILL)
        if self.process is not None:
            self.process.wait()

    def note(self, injection: Injection) -> None:
        self.met.append(injection.kind)
        self.outcome.injections.append(injection.kind)
        self.outcome.moments.append(injection.moment)

    def lose(self, what: str) -> None:
        self.outcome.losses.append(f"attempt {self.outcome.attempts} after {self.met}: {what}")

    def hang(self, what: str) -> None:
        status: dict[str, Any] = self.seen.status()
        told = {name: status.get(name) for name in ("state", "phase", "step", "waiting", "paused", "pipeline")}
        self.outcome.hangs.append(f"attempt {self.outcome.attempts} after {self.met}: {what}: {told}")
        self.end_all()
