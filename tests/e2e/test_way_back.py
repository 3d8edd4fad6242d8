"""A task app that is not on loopback reaches the gateway: by its address here, or through a tunnel that breaks."""

import json
import os
import signal
import subprocess
import sys
import time

import pytest

from tests.e2e.conftest import APP, living
from tests.fake_cloudflared import install
from trainer.way_back import address_towards, is_loopback

KEY = "the-key-of-an-app-elsewhere"
HOST = address_towards("192.0.2.1") or "127.0.0.1"
pytestmark = pytest.mark.skipif(is_loopback(HOST), reason="this machine has no address but loopback")


@pytest.fixture
def app():
    """The digit app on this machine's outer address, behind a key."""
    command = [sys.executable, "-m", "trainer.taskapp", "serve", str(APP), "--host", HOST]
    env = {**os.environ, "ENVIRONMENT_API_KEY": KEY}
    with subprocess.Popen(command, stdout=subprocess.PIPE, env=env, text=True) as process:
        yield json.loads(process.stdout.readline())["url"]
        process.terminate()


@pytest.mark.slow  # tests/test_way_back.py finds the address
def test_a_gateway_on_every_interface_is_reached_at_the_one_that_leads_to_the_app(trainer, app):
    sets = [f"services.task_url={app}", "inference.gateway_host=0.0.0.0"]
    run = trainer.run(*sets, env={"ENVIRONMENT_API_KEY": KEY})
    assert run.code == 0, run.stderr
    assert run.status["gateway"]["public_url"].startswith(f"http://{HOST}:")
    assert not any(episode["excl"] for episode in run.lines("rollouts/index.jsonl"))


@pytest.mark.slow
def test_a_tunnel_that_breaks_is_opened_again_and_the_run_goes_on(trainer, app, tmp_path):
    path = f"{install(tmp_path)}{os.pathsep}{os.environ['PATH']}"
    fake = {"PATH": path, "FAKE_CLOUDFLARED": str(tmp_path), "FAKE_CLOUDFLARED_FORWARD": HOST}
    process, run_dir = trainer.start(
        f"services.task_url={app}",
        "inference.tunnel=quick",
        "training.iterations_per_epoch=4",
        env={"ENVIRONMENT_API_KEY": KEY, **fake},
    )
    starts, index = tmp_path / "starts", run_dir / "rollouts/index.jsonl"
    while process.poll() is None and not (index.exists() and index.read_text()):
        time.sleep(0.01)
    os.kill(int(starts.read_text().splitlines()[0]), signal.SIGKILL)
    run = trainer.finish(process, run_dir)
    assert run.code == 0, run.stderr
    assert len(starts.read_text().splitlines()) == 2 and living(run_dir) == []
    texts = [warning["text"] for warning in run.status["warnings"]]
    address = run.status["gateway"]["public_url"]  # the new one
    assert address.startswith(f"http://{HOST}:")
    assert any(f"new episodes call {address}" in text for text in texts), texts
    for pid in starts.read_text().split():
        with pytest.raises(ProcessLookupError):
            os.kill(int(pid), 0)


def test_a_tunnel_without_its_program_ends_the_run_with_what_to_do(trainer, app, tmp_path):
    env = {"ENVIRONMENT_API_KEY": KEY, "PATH": str(tmp_path)}
    run = trainer.run(f"services.task_url={app}", "inference.tunnel=quick", env=env)
    assert run.code == 2 and "Traceback" not in run.stderr
    error = run.status["error"]
    assert error["code"] == "tunnel_down" and "cloudflared is not installed" in error["message"]
    assert "inference.public_url" in error["hint"]
