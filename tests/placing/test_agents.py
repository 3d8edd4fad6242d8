"""Processes on nodes, with real agents: what they say comes back, and nothing outlives its node or its coordinator."""

from __future__ import annotations

import asyncio
import os
import signal
import subprocess
import sys

import psutil
import pytest

from tests.placing.nodes import HerePlacing, home
from tests.waiting import comes
from trainer.frames import SCHEMA, TOKEN, Channel
from trainer.listening import Listener
from trainer.placing.base import LOST, PlacingError
from trainer.processes import spawn

SLEEP = "import time; print('up', flush=True); time.sleep(600)"


@pytest.fixture(autouse=True)
def path(monkeypatch):
    monkeypatch.setenv("PYTHONPATH", home())


@pytest.fixture
async def two():
    placing = HerePlacing(2)
    await placing.start()
    yield placing
    await placing.stop()


def has_ended(pid: int) -> bool:
    try:
        return psutil.Process(pid).status() == psutil.STATUS_ZOMBIE
    except psutil.NoSuchProcess:
        return True


class Lines:
    """A sink that can be waited for."""

    def __init__(self) -> None:
        self.all: list[bytes] = []
        self.came = asyncio.Event()

    def __call__(self, line: bytes) -> None:
        self.all.append(line)
        self.came.set()


async def test_lines_code_and_environment_of_a_process_on_a_node(two):
    assert [node.address for node in two.nodes] == ["127.0.0.1"] * 2 and two.address == "127.0.0.1"
    code = (
        "import os; print(os.environ['X'], os.environ['RLTUI_RUN_TOKEN'], flush=True); os.write(2, b'bad'); os._exit(7)"
    )
    lines = Lines()
    process = await two.place(1, "inference", ["-c", code], sink=lines, env={"X": "here"})
    assert await asyncio.wait_for(asyncio.shield(process.ended), 60) == 7
    assert sorted(lines.all) == [b"bad", f"here {two.token}\n".encode()]
    assert process.pid > 0 and process.node == two.nodes[1].name and not process.lost and "bad" in process.tail
    assert await two.free_port(0) > 1023


async def test_terminate_ends_the_group_that_a_process_leads(two):
    code = (
        "import subprocess, time; child = subprocess.Popen(['sleep', '600']);"
        "print(child.pid, flush=True); time.sleep(600)"
    )
    lines = Lines()
    process = await two.place(0, "inference", ["-c", code], sink=lines, own_group=True)
    await asyncio.wait_for(lines.came.wait(), 60)
    grandchild = int(lines.all[0])
    await process.terminate()
    assert process.ended.result() == -signal.SIGTERM and not process.lost
    assert has_ended(grandchild)
    await process.terminate()


@pytest.mark.parametrize(
    ("number", "why"), [(signal.SIGKILL, "its connection ended"), (signal.SIGTERM, r"took it away \(SIGTERM\)")]
)
async def test_a_node_that_is_lost_ends_what_was_on_it_with_that_cause_and_nothing_else(two, number, why):
    lines, other = Lines(), Lines()
    here = await two.place(0, "learner", ["-c", SLEEP], sink=lines)
    there = await two.place(1, "inference", ["-c", SLEEP], sink=other)
    await asyncio.wait_for(asyncio.gather(lines.came.wait(), other.came.wait()), 60)
    two.agent_of(1).send_signal(number)
    assert await asyncio.wait_for(asyncio.shield(there.ended), 60) == LOST
    with pytest.raises(PlacingError, match=rf"was lost: .*{why}"):
        raise PlacingError(there.lost)
    with pytest.raises(PlacingError, match=f"was lost: .*{why}"):
        await two.place(1, "inference", ["-c", SLEEP], sink=other)
    await there.terminate()
    assert not here.ended.done()
    await comes(lambda: has_ended(there.pid))


CRASH = f"""
import asyncio, os, signal
from tests.placing.nodes import HerePlacing

async def main():
    placing = HerePlacing(1)
    await placing.start()
    came = asyncio.Event()
    process = await placing.place(0, "x", ["-c", {SLEEP!r}], sink=lambda line: came.set(), own_group=True)
    await came.wait()
    print(process.pid, flush=True)
    os.kill(os.getpid(), signal.SIGKILL)

asyncio.run(main())
"""


async def test_a_coordinator_that_is_killed_leaves_nothing_on_its_nodes():
    done = await asyncio.to_thread(
        subprocess.run, [sys.executable, "-c", CRASH], cwd=home(), capture_output=True, text=True, timeout=120
    )
    assert done.returncode == -signal.SIGKILL, done.stderr
    pid = int(done.stdout)
    await comes(lambda: has_ended(pid))


async def test_all_nodes_must_see_a_file_and_the_same_one(two, tmp_path, monkeypatch):
    file = tmp_path / "mark"
    file.write_text("a")
    await two.check_sees(file)
    real = os.path.realpath(file)

    async def ask(type_, number=None, **fields):
        return {"data": b"b"}

    monkeypatch.setattr(two._agents[1], "ask", ask)
    with pytest.raises(PlacingError, match="is another folder on node") as told:
        await two.check_sees(file)
    assert "file system that all nodes share" in told.value.hint
    monkeypatch.undo()

    async def gone(type_, number=None, **fields):
        raise PlacingError(f"node n2: No such file or directory: {real}")

    monkeypatch.setattr(two._agents[1], "ask", gone)
    with pytest.raises(PlacingError, match="is not seen on every node: node n2"):
        await two.check_sees(file)


async def test_what_the_launcher_said_last_is_the_cause_when_it_ends(tmp_path):
    placing = HerePlacing(2, "import sys; sys.exit('the queue is closed')")
    with pytest.raises(PlacingError, match="could not be had: the queue is closed") as told:
        await placing.start()
    assert told.value.hint == "look at the queue" and b"the queue is closed\n" in placing.printed
    await placing.stop()


async def test_nodes_that_do_not_all_come_in_time_are_counted_and_given_back(monkeypatch):
    placing = HerePlacing(2, LAUNCH_ONE, timeout_s=0.5)

    async def launch(*args, **options):
        launched = await spawn(*args, **options)
        await comes(lambda: placing._agents)  # the time runs for the other one alone
        return launched

    monkeypatch.setattr("trainer.placing.agents.spawn", launch)
    with pytest.raises(PlacingError, match=r"1 of 2 nodes were there after 0\.5 s"):
        await placing.start()
    agent = placing.agent_of(0)
    await placing.stop()
    assert has_ended(agent.pid)


LAUNCH_ONE = """
import subprocess, sys
command = [sys.executable, "-m", "trainer.placing.agent", f"127.0.0.1:{sys.argv[1]}", "--node", "0"]
subprocess.run(command)
"""


@pytest.mark.parametrize("hello", [{"token": "wrong"}, {}, {"token": 7}, {"token": "x" * (1 << 17)}])
async def test_who_does_not_know_the_run_token_is_cut_off(hello):
    accepted: list[Channel] = []
    listener = await Listener.at_port("127.0.0.1", "right", lambda channel, _: accepted.append(channel))
    reader, writer = await asyncio.open_connection("127.0.0.1", listener.port)
    channel = Channel(reader, writer)
    await channel.send({"type": "hello", "schema": SCHEMA, **hello})
    assert await channel.receive() is None and not accepted
    await channel.close()
    listener.close()


async def test_an_agent_says_why_it_does_not_reach_its_coordinator():
    env = {**os.environ, TOKEN: "t"}
    command = [sys.executable, "-m", "trainer.placing.agent", "127.0.0.1:1", "--node", "0"]
    done = await asyncio.to_thread(subprocess.run, command, env=env, capture_output=True, text=True, timeout=120)
    assert done.returncode == 3 and "does not reach the run's coordinator at 127.0.0.1:1" in done.stderr
