"""Inside a job of a batch system, its SIGTERM is a notice that must not end what the last checkpoint needs."""

import asyncio
import os
import signal
import sys

import pytest

from trainer import processes
from trainer.processes import spawn

# It hears a SIGTERM if it can, whatever it inherited, and so does a child of its own, if it is given one.
CHILD = """
import os, signal, subprocess, sys, time
say = lambda word: os.write(1, word + b"\\n")  # at once: they share a pipe
signal.signal(signal.SIGTERM, lambda *_: say(b"heard"))
signal.signal(signal.SIGUSR1, lambda *_: say(b"here"))
if len(sys.argv) > 1:
    inner = subprocess.Popen([sys.executable, "-c", sys.argv[1]])
say(b"up")
while True:
    time.sleep(0.1)  # no signal.pause(): a signal that comes just before it would be heard with the next one only
"""


@pytest.fixture
def in_job(monkeypatch):
    monkeypatch.setenv("SLURM_JOB_ID", "17")
    monkeypatch.setattr(processes, "GROUP_GRACE_S", 1.0)


async def with_a_child():
    """A group of two, and what they print."""
    lines: asyncio.Queue[bytes] = asyncio.Queue()
    child = await spawn("child", [sys.executable, "-c", CHILD, CHILD], sink=lines.put_nowait, own_group=True)
    assert [await lines.get(), await lines.get()] == [b"up\n", b"up\n"]
    return child, lines


async def test_neither_a_child_nor_its_children_hear_the_notice(in_job):
    child, lines = await with_a_child()
    os.killpg(child.pid, signal.SIGTERM)
    for _ in range(2):  # what they say to the second call comes after all that they had to say to the notice
        os.killpg(child.pid, signal.SIGUSR1)
        assert [await lines.get(), await lines.get()] == [b"here\n", b"here\n"]
    await child.terminate()


async def test_the_coordinator_ends_them_nevertheless(in_job):
    child, lines = await with_a_child()
    await child.terminate()
    assert child.ended.result() == -signal.SIGKILL
    assert processes._group_members(child.pid) == []
    assert lines.empty()


async def test_elsewhere_a_child_is_asked_first(monkeypatch):
    monkeypatch.delenv("SLURM_JOB_ID", raising=False)
    lines: asyncio.Queue[bytes] = asyncio.Queue()
    child = await spawn("child", [sys.executable, "-c", CHILD], sink=lines.put_nowait)
    assert await lines.get() == b"up\n"
    asked = asyncio.create_task(child.terminate(grace_s=600.0))
    assert await lines.get() == b"heard\n"
    os.kill(child.pid, signal.SIGKILL)
    await asked
