from __future__ import annotations

import errno
import json
import os
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.rundir.conftest import SmallDisk, episode
from trainer.rundir import DiskFull, RunReader, RunWriter
from trainer.rundir.lines import read_lines

Make = Callable[..., RunWriter]
MB = 1 << 20


def fill(writer: RunWriter, most: int = 10_000) -> int:
    """Write episodes until the disk is full; gives how many were taken."""
    for number in range(most):
        try:
            writer.episode(episode(number))
        except DiskFull:
            return number
    raise AssertionError("the disk never got full")


def test_full_disk_pauses_and_goes_on_without_a_loss(root: Path, writer_at: Make) -> None:
    disk = SmallDisk(root, capacity=MB + 100_000)
    writer = writer_at(disk=disk)
    taken = fill(writer)
    assert taken > 10 and writer.disk_full and not writer.paths.reserve.exists()
    assert not writer.recover()
    assert writer.event("rl.phase", "paused: disk_full", step=0, reason="disk_full") == 1
    writer.status(state="paused", paused={"reason": "disk_full", "since": 1.0})
    with pytest.raises(DiskFull, match="the disk is full"):  # the reserve is not eaten up by records
        writer.metrics({"a/b": 1.0}, step=1, iteration=1, epoch=1, weight_version=0)
    reader = RunReader(root)
    status = reader.status()
    assert status is not None and status["paused"]["reason"] == "disk_full"
    assert reader.episode_count() == taken == len(reader.index())
    assert [reader.episode(n)["member"] for n in range(taken)] == list(range(taken))
    assert writer.paths.index.stat().st_size % 512 == 0 and reader.damaged == []

    disk.capacity += 4 * MB
    assert writer.recover() and writer.paths.reserve.stat().st_size == MB
    assert writer.episode(episode(taken)) == taken
    writer.close()
    assert reader.episode(taken)["member"] == taken


def test_a_partial_line_that_cannot_be_cut_at_once_is_cut_before_the_next(root: Path, writer_at: Make) -> None:
    disk = SmallDisk(root, capacity=MB + 30_000)
    writer = writer_at(disk=disk)
    disk.cannot_cut = True
    taken = fill(writer)
    disk.cannot_cut = False
    disk.capacity += 4 * MB
    assert writer.recover()
    assert writer.episode(episode(taken)) == taken
    writer.close()
    reader = RunReader(root)
    assert [reader.episode(n)["member"] for n in range(taken + 1)] == list(range(taken + 1))
    text = (reader.paths.rollouts / "text-00000.jsonl").read_text().splitlines()
    assert [json.loads(line)["n"] for line in text] == list(range(taken + 1))


def test_an_event_takes_the_reserve_by_itself(root: Path, writer_at: Make) -> None:
    disk = SmallDisk(root, capacity=4 * MB)
    with writer_at(disk=disk) as writer:
        disk.capacity = 0
        with pytest.raises(DiskFull):
            writer.event("rl.phase", "no room at all", step=0)
        assert writer.disk_full
        disk.capacity = 3 * MB
        assert not writer.recover()  # the reserve alone would not carry the run far
        disk.capacity = 5 * MB
        assert writer.recover() and writer.event("rl.phase", "room", step=0) == 1


def test_a_run_that_starts_on_a_full_disk_says_so_at_the_first_record(root: Path, writer_at: Make) -> None:
    with writer_at(disk=SmallDisk(root, capacity=100_000)) as writer:
        assert writer.disk_full
        writer.status(state="starting")
        with pytest.raises(DiskFull):
            writer.episode(episode())


def test_a_failing_fsync_is_a_full_disk_too(root: Path, writer_at: Make) -> None:
    class LateDisk(SmallDisk):
        full = False

        def fsync(self, fd: int) -> None:
            if self.full:
                raise OSError(errno.EDQUOT, os.strerror(errno.EDQUOT))

    disk = LateDisk(root, capacity=4 * MB)
    with writer_at(disk=disk) as writer:
        writer.event("rl.phase", "x", step=0)
        disk.full = True
        with pytest.raises(DiskFull):
            writer.sync()
        assert writer.disk_full
        writer.event("rl.job.failed", "x", step=0, level="error")
        disk.full = False


def test_a_run_that_ends_on_a_full_disk_still_says_so(root: Path, writer_at: Make) -> None:
    class NoSync(SmallDisk):
        def fsync(self, fd: int) -> None:
            if os.readlink(f"/proc/self/fd/{fd}").endswith(".jsonl"):
                raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    writer = writer_at(disk=NoSync(root, capacity=4 * MB))
    writer.event("rl.job.failed", "the disk is full", step=0, level="error")
    writer.status(state="failed", end_reason="error")
    status = RunReader(root).status()
    assert status is not None and status["state"] == "failed" and status["finished_at"]


@settings(max_examples=25, deadline=None)
@given(
    st.integers(0, 12_000),
    st.lists(st.sampled_from(["episode", "event", "metrics", "update", "status", "more"]), min_size=5, max_size=40),
)
def test_what_was_acknowledged_is_there_and_nothing_else(
    tmp_path_factory: pytest.TempPathFactory, room: int, operations: list[str]
) -> None:
    root = tmp_path_factory.mktemp("full") / "run"
    disk = SmallDisk(root, capacity=MB + room)
    writer = RunWriter(root, job_id="rl_0", label="x", disk=disk)
    done = {"episode": 0, "event": 0, "metrics": 0, "update": 0}
    for operation in operations:
        try:
            if operation == "episode":
                writer.episode(episode(done["episode"]))
            elif operation == "event":
                writer.event("rl.phase", "x", step=0)
            elif operation == "metrics":
                writer.metrics({"a/b": 1.0}, step=1, iteration=1, epoch=1, weight_version=0)
            elif operation == "update":
                writer.update(0, step=1, iteration=1, kind="group", adv=1.0)
            elif operation == "status":
                writer.status(state="running")
            else:
                disk.capacity += 4 * MB
                assert writer.recover()
                disk.capacity -= 4 * MB - 4_000
                continue
        except DiskFull:
            continue
        if operation in done:
            done[operation] += 1
    for file in writer._files():
        file.close()
    reader = RunReader(root)
    assert [row["n"] for row in reader.index()] == list(range(done["episode"]))
    assert [reader.episode(n)["member"] for n in range(done["episode"])] == list(range(done["episode"]))
    assert [event["seq"] for event in reader.events()] == list(range(1, done["event"] + 1))
    assert (
        len(read_lines(reader.paths, "metrics.jsonl").rows) == done["metrics"]
        and len(reader.updates(0)) == done["update"]
    )
    assert reader.damaged == []


def test_a_real_small_file_system(tmp_path: Path) -> None:
    mounted = subprocess.run(
        ["mount", "-t", "tmpfs", "-o", "size=2m", "tmpfs", str(tmp_path)], capture_output=True, check=False
    )
    if mounted.returncode:
        pytest.skip(f"cannot mount a small file system here: {mounted.stderr.decode().strip()}")
    try:
        writer = RunWriter(tmp_path / "run", job_id="rl_0", label="x")
        taken = fill(writer)
        writer.status(state="paused", paused={"reason": "disk_full", "since": 1.0})
        writer.event("rl.phase", "paused", step=0)
        writer.close()
        reader = RunReader(tmp_path / "run")
        assert reader.episode_count() == taken > 100 and len(reader.index()) == taken
        assert reader.episode(taken - 1)["member"] == taken - 1
    finally:
        subprocess.run(["umount", str(tmp_path)], check=True, stdout=sys.stderr)
