"""Runs as jobs of a real Slurm (cluster.py)."""

from __future__ import annotations

import json
import os
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from rltui.launch.base import Job
from rltui.launch.slurm import SlurmLauncher, SlurmRun, adopted
from tests.e2e.conftest import CONFIG
from tests.slurm.cluster import Cluster, NotHere, cluster
from trainer.rundir import RunReader
from trainer.rundir.layout import new_job_id

LOOK_S = 0.2
LONG_S = 400.0  # for machines that do much else


class Jobs:
    """Submits runs of the tiny model."""

    def __init__(self, folder: Path, slurm: Cluster) -> None:
        self.folder, self.slurm, self.launcher = folder, slurm, SlurmLauncher()
        self.config = folder / "run.toml"
        self.config.write_text(CONFIG)

    def job(self, *sets: str, **options: str | int | bool) -> Job:
        """options: of sbatch."""
        table = ", ".join(f"{name} = {json.dumps(value)}" for name, value in options.items())
        sets = ("compute.gpu_count=0", f"compute.launcher_options={{ {table} }}", *sets)
        job_id = new_job_id()
        given = {**os.environ, **self.slurm.environ}
        return Job(self.config, self.folder / f"digit-{job_id}", job_id, sets, environ=given)

    def submit(self, *sets: str, **options: str | int | bool) -> Submitted:
        job = self.job(*sets, **options)
        started = self.launcher.start(job)
        return Submitted(adopted(job.folder, look_s=LOOK_S) or started, self.slurm)


class Submitted:
    """One of them. `shown`: the states in which a follower saw it, each once."""

    def __init__(self, job: SlurmRun, slurm: Cluster) -> None:
        self.job, self.slurm = job, slurm
        self.folder = Path(job.source.place)
        self.shown: list[str] = []

    @property
    def number(self) -> str:
        return self.job.number

    @property
    def status(self) -> dict:
        return RunReader(self.folder).status() or {}

    def events(self, kind: str) -> list[dict]:
        return [event for event in RunReader(self.folder).events() if event["type"].startswith(kind)]

    def follow(self, until: Callable[[dict], bool]) -> dict:
        """Until a follower sees that. AssertionError: the job is over before, or it takes too long."""
        deadline = time.monotonic() + LONG_S
        while True:
            status = self.job.source.status() or {}
            if (state := status.get("state", "")) not in self.shown[-1:]:
                self.shown.append(state)
            if until(status):
                return status
            assert time.monotonic() < deadline, self.told()
            assert self.job.exit_code() is None, self.told()
            time.sleep(LOOK_S)

    def end(self) -> dict:
        """The status that the job leaves."""
        deadline = time.monotonic() + LONG_S
        while self.job.exit_code() is None:
            assert time.monotonic() < deadline, self.told()
            time.sleep(LOOK_S)
        return self.job.source.status() or {}

    def step(self, step: int, attempt: int = 1) -> dict:
        """Until that attempt trains beyond a step."""

        def there(now: dict) -> bool:
            return now.get("attempt", 0) >= attempt and now["state"] == "running" and now["step"] >= step

        return self.follow(there)

    def told(self) -> str:
        logs = [path.read_text(errors="replace")[-2000:] for path in sorted((self.folder / "logs").glob("*.log"))]
        return "\n".join([str(self.status), str(self.job.state()), *logs])


@pytest.fixture(scope="session")
def slurm() -> Iterator[Cluster]:
    try:
        with cluster() as found, pytest.MonkeyPatch.context() as patch:
            for name, value in found.environ.items():
                patch.setenv(name, value)
            yield found
    except NotHere as reason:
        pytest.skip(f"no Slurm here: {reason}")


@pytest.fixture
def jobs(slurm: Cluster, tmp_path: Path) -> Iterator[Jobs]:
    yield Jobs(tmp_path, slurm)
    slurm.ask("scancel", "--full", "--signal=KILL", f"--user={os.geteuid()}")
