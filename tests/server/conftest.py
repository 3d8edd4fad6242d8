"""Job servers: real ones over HTTP, and the jobs of one without it, whose coordinators may be stand-ins for faults."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
from pathlib import Path

import httpx
import pytest

import rltui.launch.local
import rltui.processes
from rltui.server.jobs import Jobs
from rltui.server.slots import Places
from rltui.server.submit import House
from tests.waiting import until

ROOT = Path(__file__).resolve().parents[2]
FAKE = ROOT / "tests" / "cli" / "fake_coordinator.py"
COMMAND = [sys.executable, "-m", "rltui", "serve", "--json"]
CONFIG = {
    "algorithm": {"type": "online", "method": "policy_gradient", "variety": "gspo"},
    "services": {"task_url": "builtin:facts"},
    "policy": {"model_name": "builtin:tiny", "trainer_mode": "lora", "label": "my run", "max_tokens": 8},
    "vllm": {"max_model_len": 256},
    "rollout": {
        "env_name": "facts",
        "policy_name": "facts",
        "max_turns": 1,
        "episodes_per_batch": 8,
        "max_concurrent_rollouts": 8,
    },
    "training": {
        "num_epochs": 1,
        "iterations_per_epoch": 2,
        "batch_size": 8,
        "group_size": 4,
        "learning_rate": 1e-3,
        "log_interval": 1,
    },
    "checkpoint": {"every_n_iters": 0},
}


def body(config: dict | None = None, **more) -> dict:
    """The body that the SDK's command line posts. `config`: sections laid over the usual ones."""
    merged = {name: {**CONFIG.get(name, {}), **part} for name, part in {**CONFIG, **(config or {})}.items()}
    data = {"endpoint_base_url": merged["services"]["task_url"], "config": merged, "base_model": "builtin:tiny"}
    return {"job_type": "rl", "data": data, "tags": {"source": "train-cli"}, **more}


class Server:
    """`rltui serve` as a process."""

    def __init__(self, folder: Path, *options: str, env: dict[str, str] | None = None, port: int = 0) -> None:
        self.folder, self.options, self.env = folder, options, env or {}
        self.state, self.runs = folder / "state", folder / "runs"
        self.start(port)

    def start(self, port: int = 0) -> None:
        self.process = subprocess.Popen(
            [*COMMAND, "--port", str(port), "--runs-dir", str(self.runs), *self.options],
            cwd=self.folder,
            env=environment(self.folder, self.env),
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
        )
        line = self.process.stdout.readline()
        assert line, self.process.stderr.read().decode()
        self.told = json.loads(line)
        self.url = self.told["url"]
        self.port = int(self.url.rsplit(":", 1)[1].split("/")[0])
        self.http = httpx.Client(base_url=self.url, timeout=30, trust_env=False)
        until(lambda: _answers(self.http))

    def get(self, path: str, **params) -> dict:
        answer = self.http.get(path, params=params)
        assert answer.status_code == 200, answer.text
        return answer.json()

    def post(self, path: str, body: object = None, status: int = 200, **headers: str) -> dict:
        answer = self.http.post(path, json=body, headers={name.replace("_", "-"): v for name, v in headers.items()})
        assert answer.status_code == status, answer.text
        return answer.json()

    def until(self, job_id: str, *words: str, limit_s: float = 120.0) -> dict:
        return until(lambda: (job := self.get(f"/rl/jobs/{job_id}"))["status"] in words and job, limit_s)

    def kill(self) -> None:
        self.process.kill()
        self._gone()

    def stop(self) -> int:
        self.process.send_signal(signal.SIGTERM)
        return self._gone()

    def _gone(self) -> int:
        self.http.close()
        code = self.process.wait(60)
        self.process.stdout.close()
        self.process.stderr.close()
        return code


def environment(folder: Path, more: dict[str, str] | None = None) -> dict[str, str]:
    own = {name: value for name, value in os.environ.items() if not name.startswith(("RLTUI", "SYNTH_", "TASK_APP"))}
    return {**own, "PYTHONPATH": str(ROOT), "XDG_STATE_HOME": str(folder / "state"), **(more or {})}


def _answers(http: httpx.Client) -> bool:
    try:
        return http.get("/health").status_code == 200
    except httpx.HTTPError:
        return False


@pytest.fixture
def make_jobs(tmp_path, monkeypatch):
    """`make_jobs()`: the jobs of a server, of the folder `runs`. `mode`: of the stand-in for their coordinators."""
    made: list[Jobs] = []

    def argv(job) -> list[str]:
        return [sys.executable, str(FAKE), "--run-dir", str(job.folder), "--job-id", job.job_id]

    def make(mode: str = "ok", *, gpus: tuple[str, ...] = (), cpu_jobs: int = 1, **options) -> Jobs:
        environ = {**environment(tmp_path), "FAKE_MODE": mode, "FAKE_PACE_S": "0.02"}
        trusted = frozenset(options.pop("trusted", ()))
        house = House(tmp_path / "runs", options.pop("allow_code", False), environ, trusted)
        jobs = Jobs(house, Places(gpus, cpu_jobs))
        made.append(jobs)
        return jobs

    monkeypatch.setattr(rltui.launch.local, "trainer_argv", argv)
    monkeypatch.setattr(rltui.processes, "GRACE_S", 0.5)
    yield make
    for jobs in made:
        jobs.close()  # first, or what waits would be started in the place of what is killed
        for row in list(jobs.table.rows.values()):
            if row.pid is not None:
                try:
                    os.killpg(row.pid, signal.SIGKILL)
                except (ProcessLookupError, PermissionError):
                    pass
