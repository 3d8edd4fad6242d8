"""The server's process: what it says when it cannot start, and that nothing outlives a killed coordinator."""

import asyncio
import os
import shutil
import subprocess
import sys
import time
from pathlib import Path

import pytest

from tests.inference.vllm_tools import group_members, needs_vllm, until, vllm_engine
from trainer.inference.engine import EngineConfigError, EngineError

pytestmark = [needs_vllm, pytest.mark.slow]

COORDINATOR = """
import asyncio, sys
from pathlib import Path
from tests.inference.vllm_tools import vllm_engine
from trainer.models import resolve_model

async def main():
    engine = vllm_engine(resolve_model("builtin:tiny"), Path(sys.argv[1]))
    await engine.start()
    print(engine.pid, engine._process._folder, flush=True)
    await asyncio.sleep(600)

asyncio.run(main())
"""


async def test_an_option_that_vllm_does_not_know_is_named_with_its_key(tiny, tmp_path):
    engine = vllm_engine(tiny, tmp_path / "log", extra={"no_such_option": 3})
    with pytest.raises(EngineConfigError, match=r"knows no option --no-such-option; delete vllm\.no_such_option"):
        await engine.start()
    assert engine.ended.done() and engine.pid is None


async def test_a_start_that_takes_too_long_is_given_up_and_leaves_nothing(tiny, tmp_path):
    engine = vllm_engine(tiny, tmp_path / "log")
    engine._startup_timeout_s = 5.0
    with pytest.raises(EngineError, match=r"within 5 s; raise inference\.startup_timeout_s"):
        await engine.start()
    assert group_members(engine._process.child.pid) == []


def test_a_killed_coordinator_takes_the_server_along(tmp_path):
    shared = set(Path("/dev/shm").iterdir())
    command = [sys.executable, "-c", COORDINATOR, str(tmp_path / "log")]
    coordinator = subprocess.Popen(command, stdout=subprocess.PIPE, text=True, env={**os.environ, "PYTHONPATH": "."})
    leader, folder = coordinator.stdout.readline().split()
    assert len(group_members(int(leader))) > 1
    coordinator.kill()
    coordinator.wait()
    deadline = time.monotonic() + 60
    while group_members(int(leader)) and time.monotonic() < deadline:
        time.sleep(0.1)
    assert group_members(int(leader)) == []
    assert set(Path("/dev/shm").iterdir()) <= shared
    shutil.rmtree(folder)  # of its sockets; a killed process removes no files


async def test_a_killed_server_leaves_nothing_behind(tiny, tmp_path):
    shared = set(Path("/dev/shm").iterdir())
    engine = vllm_engine(tiny, tmp_path / "log")
    await engine.start()
    engine._stopping = True
    engine._watcher.cancel()  # this is about what is left, not about the restart
    leader = engine.pid
    os.kill(leader, 9)
    await asyncio.wait_for(engine._process.child.ended, 30)
    await until(lambda: group_members(leader) == [])
    assert set(Path("/dev/shm").iterdir()) <= shared
    await engine.stop()
