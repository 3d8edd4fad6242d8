"""Runs of `python -m trainer run` on the tiny model: real processes, real HTTP, seconds long."""

import json
import os
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path

import pytest

APP = Path(__file__).with_name("digit_app.py")

CONFIG = f"""
[algorithm]
type = "online"
method = "policy_gradient"
variety = "gspo"
[services]
task_url = "{APP}"
[policy]
model_name = "builtin:tiny"
trainer_mode = "full"
label = "digit"
max_tokens = 5
temperature = 1.0
[vllm]
max_model_len = 128
[rollout]
env_name = "digit"
policy_name = "say-again"
max_turns = 1
episodes_per_batch = 8
[training]
num_epochs = 1
iterations_per_epoch = 2
batch_size = 8
group_size = 4
learning_rate = 1e-3
max_lag = 0
dtype = "float32"
clip_eps_low = 0.2
clip_eps_high = 0.2
[evaluation]
instances = 4
every_n_iters = 0
seeds = [100, 101, 102, 103]
[checkpoint]
every_n_iters = 0
"""


@dataclass
class Finished:
    """What a run left behind."""

    code: int
    stdout: list[dict]
    stderr: str
    run_dir: Path

    @property
    def status(self) -> dict:
        return json.loads((self.run_dir / "status.json").read_text())

    def lines(self, name: str) -> list[dict]:
        return [json.loads(line) for line in (self.run_dir / name).read_text().splitlines()]


class Trainer:
    """Starts runs in a folder of their own, each in its own session as the launcher does."""

    def __init__(self, folder: Path) -> None:
        self.folder, self.count = folder, 0
        self.config = folder / "run.toml"
        self.config.write_text(CONFIG)

    def start(
        self, *sets: str, env: dict[str, str] | None = None, first: str | None = None
    ) -> tuple[subprocess.Popen, Path]:
        """`first`: what the coordinator does before anything else, to plant a fault or to shorten a limit."""
        self.count += 1
        run_dir = self.folder / f"run-{self.count}"
        return self._begin(self.config, run_dir, sets, env, first=first), run_dir

    def resume(
        self, run_dir: Path, *sets: str, options: tuple[str, ...] = (), first: str | None = None
    ) -> tuple[subprocess.Popen, Path]:
        """A further attempt of the run in that folder, by its own copy of the config."""
        return self._begin(run_dir / "config.toml", run_dir, sets, None, "--resume", *options, first=first), run_dir

    def _begin(
        self,
        config: Path,
        run_dir: Path,
        sets: tuple[str, ...],
        env: dict[str, str] | None,
        *options: str,
        first: str | None = None,
    ) -> subprocess.Popen:
        program = ["-m", "trainer"]
        if first is not None:
            program = ["-c", f"{first}\nimport runpy\nrunpy.run_module('trainer', run_name='__main__')"]
        command = [sys.executable, *program, "run", str(config), "--run-dir", str(run_dir), *options]
        for item in sets:
            command += ["--set", item]
        return subprocess.Popen(
            command,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
            start_new_session=True,
            env={**os.environ, **(env or {})},
            cwd=self.folder,
        )

    def finish(self, process: subprocess.Popen, run_dir: Path, timeout: float = 300) -> Finished:
        out, err = process.communicate(timeout=timeout)
        return Finished(process.returncode, [json.loads(line) for line in out.splitlines()], err, run_dir)

    def run(self, *sets: str, env: dict[str, str] | None = None) -> Finished:
        return self.finish(*self.start(*sets, env=env))


@pytest.fixture
def trainer(tmp_path: Path) -> Trainer:
    return Trainer(tmp_path)


def living(run_dir: Path) -> list[str]:
    """Command lines of processes that still belong to a run, found by the socket or folder they name."""
    found = []
    for entry in Path("/proc").iterdir():
        try:
            command = (entry / "cmdline").read_bytes().replace(b"\0", b" ").decode(errors="replace")
            stat = (entry / "stat").read_text()
            session = int(stat.rpartition(")")[2].split()[3])
            state = stat.rpartition(")")[2].split()[0]
        except (OSError, ValueError, IndexError):
            continue
        if state != "Z" and "trainer" in command and session == _session_of(run_dir):
            found.append(command)
    return found


def _session_of(run_dir: Path) -> int:
    return json.loads((run_dir / "status.json").read_text())["pgid"]
