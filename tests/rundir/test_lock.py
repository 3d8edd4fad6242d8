from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import msgspec
import pytest

from trainer.rundir import ProcessId, RunLock, RunLocked, RunWriter
from trainer.rundir import lock as lock_module

HOLD = """
import sys
from trainer.rundir import RunLock, RunLocked
try:
    with RunLock(sys.argv[1]):
        print("held", flush=True)
        sys.stdin.readline()
except RunLocked as error:
    print(error, flush=True)
    sys.exit(2)
"""


def starter(root: Path) -> subprocess.Popen[str]:
    return subprocess.Popen(
        [sys.executable, "-c", HOLD, str(root)], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    )


def leave(root: Path, **changes: Any) -> dict:
    """A lock file that its process left behind."""
    root.mkdir(exist_ok=True)
    identity = msgspec.to_builtins(ProcessId.current()) | changes
    content = identity | {"attempt": 1, "created_at": "2025-01-01T00:00:00Z"}
    (root / "lock").write_text(json.dumps(content))
    return content


def test_a_living_process_keeps_others_out_and_a_killed_one_does_not(root: Path) -> None:
    first = starter(root)
    assert first.stdout is not None and first.stdout.readline() == "held\n"
    with pytest.raises(RunLocked, match=f"in use by pid {first.pid}") as refused:
        RunLock(root, take_over=True).acquire()
    assert refused.value.holder is not None and refused.value.holder["pid"] == first.pid
    first.kill()
    first.communicate()
    assert (root / "lock").exists()
    with RunLock(root, attempt=2) as lock:
        content = json.loads((root / "lock").read_text())
        assert content["pid"] == os.getpid() and content["attempt"] == 2
        with pytest.raises(RunLocked):
            RunLock(root).acquire()
        lock.release()
        assert not (root / "lock").exists()
    assert list(root.iterdir()) == []


def test_of_several_starts_at_once_on_a_stale_lock_one_wins(root: Path) -> None:
    leave(root, start_time=1)
    starts = [starter(root) for _ in range(4)]
    said = [start.stdout.readline() for start in starts if start.stdout]
    assert said.count("held\n") == 1, said
    for start in starts:
        start.communicate("\n")
    assert sorted(start.returncode for start in starts) == [0, 2, 2, 2]


@pytest.mark.parametrize("change", [{"start_time": 1}, {"boot_id": "an earlier boot"}, {"pid": 1 << 30}])
def test_a_dead_holder_on_this_host_is_replaced(root: Path, change: dict) -> None:
    leave(root, **change)
    with RunLock(root):
        assert json.loads((root / "lock").read_text())["pid"] == os.getpid()


def test_another_host_needs_take_over_and_a_minute_without_a_beat(
    root: Path, writer_at: Callable[..., RunWriter]
) -> None:
    elsewhere = ProcessId(pid=5, start_time=5, host="elsewhere", boot_id="b")
    slept: list[float] = []
    with writer_at(identity=elsewhere) as writer:
        writer.status(state="running")
        leave(root, host="elsewhere", pid=5)
        with pytest.raises(RunLocked, match=r"on elsewhere.*--take-over"):
            RunLock(root).acquire()

        def beating(seconds: float) -> None:
            slept.append(seconds)
            if sum(slept) > 50:
                writer.beat()

        with pytest.raises(RunLocked, match="pid 5 on elsewhere"):
            RunLock(root, take_over=True, sleep=beating).acquire()
        slept.clear()
        with RunLock(root, take_over=True, sleep=slept.append):
            assert sum(slept) == 60


def test_a_damaged_lock_is_not_taken_without_being_told_to(root: Path) -> None:
    root.mkdir()
    (root / "lock").write_text("")
    with pytest.raises(RunLocked, match="damaged"):
        RunLock(root).acquire()
    with RunLock(root, take_over=True, sleep=lambda _: None):
        pass


def test_without_hard_links_or_flock_the_file_alone_does(root: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(*_: object, **__: object) -> None:
        raise OSError(95, "Operation not supported")

    monkeypatch.setattr(lock_module.os, "link", refuse)
    monkeypatch.setattr(lock_module.fcntl, "flock", refuse)
    leave(root, start_time=1)
    with RunLock(root), pytest.raises(RunLocked):
        RunLock(root).acquire()
    assert not (root / "lock").exists()


def test_a_lock_that_was_taken_from_us_is_not_removed(root: Path) -> None:
    lock = RunLock(root).acquire()
    (root / "lock").unlink()
    leave(root, host="elsewhere")
    lock.release()
    assert json.loads((root / "lock").read_text())["host"] == "elsewhere"
