"""A full disk loses nothing: records wait, in order, and are written when there is room."""

from __future__ import annotations

from pathlib import Path

import numpy as np

from tests.rundir.conftest import SmallDisk, episode
from trainer.rundir import RunReader
from trainer.rundir.patient import PatientWriter
from trainer.rundir.records import JudgeRecord

MB = 1 << 20


def patient(root: Path, disk: SmallDisk) -> PatientWriter:
    return PatientWriter(root, job_id="rl_0123456789abcdef", label="test", disk=disk)


def test_what_comes_while_the_disk_is_full_is_written_in_order_when_there_is_room(root: Path) -> None:
    disk = SmallDisk(root, capacity=MB + 60_000)
    writer = patient(root, disk)
    rows = 0
    while not writer.disk_full:
        assert writer.episode(episode(rows)) == rows
        rows += 1
    assert rows > 5 and writer.waiting == 1  # the last one did not fit, and was taken all the same
    call = {"step": 1, "iteration": 1, "n": None, "kind": "outcome", "turn": None, "source": "rule", "provider": None}
    call |= {"model": None, "rubric_id": None, "rubric_hash": None, "key": "k"}
    assert writer.judge(JudgeRecord(cid="late", **call)) == -1  # where its line will be is not known
    for _ in range(3):
        assert writer.episode(episode(rows)) == rows  # its row is known at once
        writer.use(rows, 0, {"logp_learner": np.zeros(6, "<f4")}, step=1, iteration=1, s=1.0)
        writer.metrics({"gspo/loss": 0.5}, step=rows, iteration=1, epoch=0, weight_version=0)
        rows += 1
    disk.capacity = 0  # not even the reserve is left
    writer.event("rl.phase", "paused", step=1, phase="paused")
    writer.status(state="paused", phase="paused")
    writer.sync()
    assert not writer.recover() and RunReader(root).episode_count() < rows

    disk.capacity = 8 * MB
    assert writer.recover() and not writer.disk_full and writer.waiting == 0
    assert (root / "reserve").stat().st_size == MB
    assert writer.episode(episode(rows)) == rows
    writer.event("rl.phase", "training", step=1, phase="training")
    writer.close()
    reader = RunReader(root)
    assert [reader.episode(n)["member"] for n in range(rows + 1)] == list(range(rows + 1))
    assert [event["seq"] for event in reader.events()] == [1, 2]
    used = reader.updates(rows - 1)
    assert used[0]["kind"] == "use" and len(reader.token_block(used[0]["arr"])["logp_learner"]) == 6
    assert [line["cid"] for line in reader.judge_after().rows] == ["late"] and reader.damaged == []


def test_room_that_ends_while_it_catches_up_loses_nothing_either(root: Path) -> None:
    disk = SmallDisk(root, capacity=MB + 20_000)
    writer = patient(root, disk)
    rows = 0
    while writer.waiting < 40:
        writer.episode(episode(rows))
        rows += 1
    for _ in range(40):
        used = sum(path.stat().st_size for path in root.rglob("*") if path.is_file())
        disk.capacity = used + 4 * MB + 8_000  # for the reserve and the room besides, then they are given up again
        if writer.recover():
            break
        disk.capacity -= 4 * MB
    assert writer.waiting == 0
    writer.close()
    reader = RunReader(root)
    assert [reader.episode(n)["member"] for n in range(rows)] == list(range(rows))
