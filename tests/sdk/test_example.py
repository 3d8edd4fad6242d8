"""The documented example, from nothing: no server listens, and the script knows of none."""

from __future__ import annotations

import os
import re
import shutil
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from rltui import RLJob
from rltui.sdk.task.hosting import listen
from tests.e2e import digit_app

EXAMPLE = Path(__file__).parent.parent / "config" / "sdk_example.toml"

SCRIPT = """
from rltui.sdk.api.train.rl import RLJob
from rltui.sdk.task.in_process import InProcessTaskApp

async with InProcessTaskApp(task_app_path="my_task_app.py", port=8114) as task_app:
    job = RLJob.from_config(
        config_path="my_config.toml",
        task_app_url=task_app.url,
    )
    job.submit()
    result = job.poll_until_complete()
    print(f"Final reward: {result.get('final_reward', 'N/A')}")
"""

# What runs a script with `async with` at its top, as notebooks do. The default address is another one here, so that
# a server that a person has is left alone.
RUNNER = """
import ast, asyncio, sys
import rltui.backend
rltui.backend.DEFAULT_URL = sys.argv[1]
code = compile(open("script.py").read(), "script.py", "exec", flags=ast.PyCF_ALLOW_TOP_LEVEL_AWAIT)
space = {}
asyncio.run(eval(code, space))
print("job", space["job"].job_id)
"""

SMALLER = {
    "Qwen/Qwen3-4B": "builtin:tiny",
    "max_turns = 10": "max_turns = 1",
    "episodes_per_batch = 32": "episodes_per_batch = 8",
    "iterations_per_epoch = 20": "iterations_per_epoch = 2",
    "batch_size = 16": "batch_size = 8",
    "instances = 50": "instances = 2",
    "[evaluation]": "[policy]\nmax_tokens = 5\n[vllm]\nmax_model_len = 128\n[evaluation]",
}


@pytest.fixture
def folder(tmp_path):
    text = EXAMPLE.read_text()
    for old, new in SMALLER.items():
        assert old in text
        text = text.replace(old, new)
    (tmp_path / "my_config.toml").write_text(text)
    (tmp_path / "script.py").write_text(SCRIPT)
    shutil.copy(digit_app.__file__, tmp_path / "my_task_app.py")
    return tmp_path


@pytest.mark.slow
def test_the_documented_example_runs_with_nothing_listening_at_first(folder):
    with listen("127.0.0.1", 22000, find=True) as free:
        url = f"http://127.0.0.1:{free.getsockname()[1]}/api"
    done = subprocess.run(
        [sys.executable, "-c", RUNNER, url], cwd=folder, capture_output=True, text=True, timeout=240, env=_environment()
    )
    started = re.search(rf"started a job server at {url} \(pid (\d+)\).*kill (\d+)", done.stderr)
    assert started, done.stderr
    try:
        reward = re.search(r"Final reward: (\S+)\njob (\S+)", done.stdout)
        assert done.returncode == 0 and reward, (done.stdout, done.stderr)
        assert 0.0 <= float(reward[1]) <= 1.0 and started[1] == started[2]
        job = RLJob.from_job_id(reward[2], url)  # the server outlives the script
        results = job.get_results()
        assert results["final_reward"] == float(reward[1]) and results["episodes"] >= 16
        status = job.get_status()
        assert status["job_id"] == job.job_id and status["results"] == results and status["model_id"]
        assert [event["seq"] for event in job.stream()] == list(range(1, status["last_seq"] + 1))
        assert job.events()[-1]["type"] == "rl.job.completed" and job.checkpoints()
        assert {point["step"] for point in job.metrics("gspo/loss")} == {1, 2}
        assert (folder / "runs").is_dir()
    finally:
        os.kill(int(started[1]), signal.SIGTERM)


def _environment():
    root = str(Path(__file__).parent.parent.parent)
    return {**os.environ, "PYTHONPATH": root, "SYNTH_TUNNEL_VERIFY_INITIAL_DELAY_SECS": "0"}
