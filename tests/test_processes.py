"""No child outlives its coordinator, and what a child said last is kept."""

import asyncio
import errno
import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from tests.waiting import comes, until
from trainer.processes import remove_stale_socket_folders, socket_folder, spawn

PYTHON = sys.executable


async def test_output_goes_to_the_sink_and_the_last_lines_are_kept():
    lines = []
    child = await spawn("x", [PYTHON, "-c", "print('a'); import sys; sys.exit('b')"], sink=lines.append)
    assert await child.ended == 1
    await child.terminate()
    assert sorted(lines) == [b"a\n", b"b\n"] and sorted(child.tail.split()) == ["a", "b"]


async def test_a_line_is_in_the_log_when_it_is_printed(tmp_path):
    """Not only when the child has filled a buffer, or ends."""
    fifo = tmp_path / "go on"
    os.mkfifo(fifo)
    said = asyncio.Event()
    code = "import sys; print('a'); open(sys.argv[1]).read()"
    child = await spawn("x", [PYTHON, "-c", code, str(fifo)], sink=lambda line: said.set())
    await asyncio.wait_for(said.wait(), 60)
    assert not child.ended.done()
    await child.terminate()


async def test_the_first_line_is_the_callers_and_the_rest_goes_to_the_sink():
    lines = []
    code = "print('ready', flush=True); print('more', flush=True)"
    child = await spawn("x", [PYTHON, "-c", code], sink=lines.append, keep_stdout=True)
    assert await child.first_line(60) == b"ready\n"
    await child.ended
    await child.terminate()
    assert lines == [b"more\n"]


async def test_a_child_that_ignores_sigterm_is_killed():
    code = "import signal, time; signal.signal(15, signal.SIG_IGN); print('up', flush=True); time.sleep(60)"
    child = await spawn("x", [PYTHON, "-c", code], sink=lambda line: None, keep_stdout=True)
    await child.first_line(60)
    await child.terminate(grace_s=0.2)
    assert child.ended.result() == -signal.SIGKILL


async def test_a_child_that_is_slow_to_be_killed_is_waited_for(monkeypatch):
    """As on a machine that stands still for a moment: the grace is for what the child does, not for the kernel."""
    code = "import signal, time; signal.signal(15, signal.SIG_IGN); print('up', flush=True); time.sleep(60)"
    child = await spawn("x", [PYTHON, "-c", code], sink=lambda line: None, keep_stdout=True)
    await child.first_line(60)
    kill = child._process.kill
    monkeypatch.setattr(child._process, "kill", lambda: asyncio.get_running_loop().call_later(1.0, kill))
    await child.terminate(grace_s=0.1)
    assert child.ended.result() == -signal.SIGKILL


async def test_a_very_long_line_does_not_stop_the_log():
    lines = []
    child = await spawn("x", [PYTHON, "-c", "print('x' * 300_000); print('end')"], sink=lines.append)
    await child.ended
    await asyncio.sleep(0)
    await child.terminate()
    assert lines[-1] == b"end\n"


async def test_a_log_on_a_full_disk_does_not_stop_the_child():
    """More than a pipe holds: a child whose output is no longer read would hang."""

    def full(line):
        raise OSError(errno.ENOSPC, "no space left")

    child = await spawn("x", [PYTHON, "-c", "[print('x' * 99) for _ in range(3000)]"], sink=full)
    try:
        assert await asyncio.wait_for(asyncio.shield(child.ended), 60) == 0
    finally:
        await child.terminate()


@pytest.mark.parametrize("own_group", [False, True])
@pytest.mark.parametrize("stopped", [False, True])
def test_a_child_dies_with_a_killed_parent(own_group, stopped):
    code = (
        "import asyncio, sys\nfrom trainer.processes import spawn\n"
        "async def main():\n"
        "    words = [sys.executable, '-c', 'import time; time.sleep(60)']\n"
        f"    child = await spawn('x', words, sink=print, own_group={own_group})\n"
        "    print(child.pid, flush=True)\n    await asyncio.sleep(60)\nasyncio.run(main())"
    )
    parent = subprocess.Popen([PYTHON, "-c", code], stdout=subprocess.PIPE, text=True, start_new_session=True)
    pid = int(parent.stdout.readline())
    if stopped:
        os.kill(pid, signal.SIGSTOP)
        until(lambda: state_of(pid) == "T")
    parent.kill()
    parent.wait()
    try:
        until(lambda: not alive(pid))
    finally:
        if alive(pid):
            os.kill(pid, signal.SIGKILL)


def test_a_child_that_is_just_starting_dies_with_a_killed_parent(tmp_path):
    """The kernel tells nobody who asks for the signal once the parent is gone."""
    begun = tmp_path / "pid"
    code = (
        "import asyncio, os, sys, time\nfrom trainer import processes\n"
        "asks = processes.die_with_parent\n"
        "def late(*args):\n"
        "    parent = os.getppid()\n"
        "    open(sys.argv[1] + '-', 'w').write(str(os.getpid()))\n"
        "    os.rename(sys.argv[1] + '-', sys.argv[1])\n"
        "    while os.getppid() == parent:\n"
        "        time.sleep(0.01)\n"
        "    asks(*args)\n"
        "processes.die_with_parent = late\n"
        "words = [sys.executable, '-c', 'import time; time.sleep(600)']\n"
        "asyncio.run(processes.spawn('x', words, sink=print))"
    )
    parent = subprocess.Popen([PYTHON, "-c", code, str(begun)], start_new_session=True)
    pid = int(until(lambda: begun.exists() and begun.read_text()))
    parent.kill()
    parent.wait()
    try:
        until(lambda: not alive(pid))
    finally:
        if alive(pid):
            os.kill(pid, signal.SIGKILL)


def test_a_long_tmpdir_leaves_room_for_a_socket(tmp_path, monkeypatch):
    deep = tmp_path / ("x" * 100)
    deep.mkdir()
    monkeypatch.setattr("tempfile.tempdir", str(deep))
    folder = socket_folder()
    try:
        assert len(f"{folder}/s") < 104 and os.stat(folder).st_mode & 0o777 == 0o700
    finally:
        os.rmdir(folder)


def test_socket_folders_of_a_killed_process_are_removed_and_no_others(tmp_path, monkeypatch):
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path))
    monkeypatch.setattr("trainer.processes._SHORT_HOME", str(tmp_path))
    code = f"from trainer import processes as p; p.MAX_SOCKET_HOME, p._SHORT_HOME = 0, {str(tmp_path)!r}"
    command = [PYTHON, "-c", f"{code}; print(p.socket_folder())"]
    made = subprocess.run(command, capture_output=True, text=True, check=True)
    dead, own = Path(made.stdout.strip()), Path(socket_folder())
    assert dead.parent == own.parent == tmp_path
    (dead / "s").touch()
    reused = tmp_path / f"rltui-{os.getpid()}-1-abc"  # our pid, but of a process that started at another time
    others = [tmp_path / name for name in ("rltui-demo", "rltui-1-2", "elsewhere")]
    for folder in (reused, *others):
        folder.mkdir()
    (tmp_path / "rltui-1-2-link").symlink_to(others[0])
    remove_stale_socket_folders()
    assert not dead.exists() and not reused.exists()
    assert own.is_dir() and all(folder.is_dir() for folder in others)


async def test_what_a_killed_leader_leaves_behind_is_ended_with_its_group():
    code = (
        "import subprocess, sys, time; p = subprocess.Popen(['sleep', '60']); print(p.pid, flush=True); time.sleep(60)"
    )
    child = await spawn("x", [PYTHON, "-c", code], sink=lambda line: None, keep_stdout=True, own_group=True)
    grandchild = int(await child.first_line(60))
    os.kill(child.pid, signal.SIGKILL)  # as the system does when memory runs out
    assert await asyncio.wait_for(child.ended, 60) == -signal.SIGKILL  # though its child held the pipes open
    await comes(lambda: not alive(grandchild))  # its pipes are closed a moment before it is gone


async def test_terminating_a_leader_ends_its_children():
    code = (
        "import subprocess, sys, time; p = subprocess.Popen(['sleep', '60']); print(p.pid, flush=True); time.sleep(60)"
    )
    child = await spawn("x", [PYTHON, "-c", code], sink=lambda line: None, keep_stdout=True, own_group=True)
    grandchild = int(await child.first_line(60))
    assert os.getpgid(grandchild) == child.pid != os.getpgid(0)
    await child.terminate()
    assert child.ended.done() and not alive(grandchild)


def state_of(pid: int) -> str:
    """The letter in its stat file (proc(5)); empty: there is no such process."""
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0]
    except OSError:
        return ""


def alive(pid: int) -> bool:
    return state_of(pid) not in ("", "Z", "X")
