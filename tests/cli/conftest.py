from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

import rltui.cli.main as entry
from trainer.rundir.synth import SynthConfig, write_run

ROOT = Path(__file__).resolve().parents[2]
SDK_EXAMPLE = (ROOT / "tests" / "config" / "sdk_example.toml").read_text()
DRIVER = Path(__file__).parent / "with_fake.py"
CONFIG = """
[algorithm]
type = "online"
method = "policy_gradient"
variety = "gspo"
[services]
task_url = "http://127.0.0.1:9"
[policy]
model_name = "builtin:tiny"
trainer_mode = "lora"
label = "my run"
[rollout]
env_name = "facts"
policy_name = "facts"
max_turns = 1
episodes_per_batch = 8
max_concurrent_rollouts = 8
[training]
num_epochs = 1
iterations_per_epoch = 2
batch_size = 4
group_size = 4
learning_rate = 1e-3
log_interval = 1
"""


@pytest.fixture
def here(tmp_path, monkeypatch):
    """An empty working folder with a config in it, and no setting of the person who runs the tests."""
    for name in [*os.environ]:
        if name.startswith("RLTUI__") or name == "TASK_APP_URL":
            monkeypatch.delenv(name)
    monkeypatch.chdir(tmp_path)
    (tmp_path / "my.toml").write_text(CONFIG)
    return tmp_path


@pytest.fixture
def rltui(here):
    """`rltui ARGS` as a process; with `fake=` its coordinator is fake_coordinator.py in that mode."""

    def run(*args, fake: str | None = None, env: dict | None = None, timeout: float = 60, **options):
        done = subprocess.run(
            command(fake, *args), env=environment(fake, env), capture_output=True, timeout=timeout, **options
        )
        done.out, done.err = done.stdout.decode(), done.stderr.decode()
        return done

    return run


def command(fake: str | None, *args) -> list[str]:
    start = [sys.executable, "-m", "rltui"] if fake is None else [sys.executable, str(DRIVER)]
    return [*start, *map(str, args)]


def environment(fake: str | None = None, more: dict | None = None) -> dict[str, str]:
    return {**os.environ, "PYTHONPATH": str(ROOT), "FAKE_MODE": fake or "ok", **(more or {})}


def last_object(text: str) -> dict:
    lines = text.splitlines()
    assert lines, "nothing was printed"
    return json.loads(lines[-1])


@pytest.fixture(scope="session")
def synthetic(tmp_path_factory):
    """A folder `runs` with one run of each kind, named KIND-rl_…"""
    runs = tmp_path_factory.mktemp("synthetic") / "runs"
    for number, kind in enumerate(("healthy", "crashed", "torn", "failed", "resumed")):
        name = f"{kind}-rl_{number:016x}"
        write_run(runs / name, SynthConfig(episodes=64, kind=kind, learner_blocks=False))
        status = runs / name / "status.json"
        if kind in ("crashed", "torn"):  # written by this process: make it one that is gone
            document = json.loads(status.read_bytes())
            assert document["state"] == "running"
    return runs


@pytest.fixture
def config(capsys):
    """`rltui config ARGS` in this process: exit code, stdout, stderr."""

    def run(*args):
        code = entry.main(["config", *map(str, args)])
        out, err = capsys.readouterr()
        return code, out, err

    return run


@pytest.fixture
def in_json(config):
    def run(*args):
        code, out, _ = config(*args, "--json")
        (line,) = out.splitlines()
        return code, json.loads(line)

    return run


@pytest.fixture
def files(here):
    """my.toml, a valid config; old.toml, the SDK's example in old spellings."""
    (here / "old.toml").write_text(SDK_EXAMPLE)
    return here
