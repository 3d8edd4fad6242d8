from __future__ import annotations

import json
import math
import os
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest

from tests.rundir.conftest import branch, episode
from trainer.rundir import Exclusion, GroupRecord, JudgeRecord, ProcessId, RunReader, RunWriter, TokensRemoved
from trainer.rundir.disk import replace_file

Make = Callable[..., RunWriter]


def lines(path: Path) -> list[dict]:
    return [json.loads(line) for line in path.read_text().splitlines()]


def test_an_episode_is_found_from_its_index_row(root: Path, writer_at: Make) -> None:
    with writer_at() as writer:
        record = episode(branches=[branch(version=3), branch(tokens=9, sampled=4, version=5)])
        assert (writer.next_n, writer.episode(record), writer.next_n) == (0, 0, 1)
        writer.episode(episode(1, exclusion=Exclusion(code="timeout", detail={"limit_s": 60}), branches=[]))
    reader = RunReader(root)
    first, second = reader.index()
    assert reader.episode_count() == 2
    assert first["ver"] == [3, 5] and first["tok"] == [8, 7] and first["R"] == 0.123457 and first["excl"] is None
    assert second["excl"] == "timeout" and second["arr"] is None and second["ver"] is None
    text = reader.episode(0)
    assert text["R"] == 0.123456789 and text["turns"][0]["messages"][0]["text"] == "episode 0"
    assert text["branches"][0]["arr"] == first["arr"] and text["branches"][1]["sampled"] == 4
    arrays = reader.token_block(text["branches"][1]["arr"])
    assert arrays["ids"].tolist() == list(range(100, 109)) and arrays["mask"].sum() == 4
    assert reader.episode(1)["exclusion"] == {"code": "timeout", "detail": {"limit_s": 60}, "evidence": ""}
    with pytest.raises(LookupError):
        reader.episode(2)


def test_broken_arrays_leave_no_trace(root: Path, writer_at: Make) -> None:
    broken = branch()
    broken.mask.append(1)
    with writer_at() as writer:
        with pytest.raises(ValueError, match="mask has 7"):
            writer.episode(episode(branches=[branch(), broken]))
        assert writer.next_n == 0
        writer.sync()
        assert all(path.stat().st_size == 0 for path in writer.paths.rollouts.iterdir())
        assert writer.episode(episode()) == 0


def test_segments_follow_each_other_and_can_be_deleted_alone(root: Path, writer_at: Make) -> None:
    sizes = {"text_segment_bytes": 2_000, "token_segment_bytes": 1_000}
    with writer_at(**sizes) as writer:
        for number in range(20):
            writer.episode(episode(number))
    with writer_at(**sizes, attempt=2) as writer:
        assert writer.episode(episode(20)) == 20
    reader = RunReader(root)
    assert len(list(reader.paths.rollouts.glob("text-*.jsonl"))) > 3
    assert [reader.episode(n)["member"] for n in range(21)] == list(range(21))
    arr = reader.index(20)[0]["arr"]
    assert reader.token_block(arr)["ids"].size == 6
    (reader.paths.rollouts / f"tokens-{arr[0]:05d}.bin").unlink()
    with pytest.raises(TokensRemoved, match="token arrays were removed"):
        reader.token_block(arr)
    assert reader.episode(20)["member"] == 20


def test_events_and_metrics(root: Path, writer_at: Make) -> None:
    with writer_at(clock=lambda: 1_750_000_000.0) as writer:
        assert writer.event("rl.train.step", "step 1\n\x1b[31mred", step=1, loss=0.5) == 1
        assert writer.event("rl.health", "w", step=1, level="warning", rule="D1") == 2
        values = {
            "reward/mean": np.float32(0.5),
            "gspo/loss": math.nan,
            "entropy": -math.inf,
            "turns/mean": 2,
        }
        writer.metrics(values, step=1, iteration=1, epoch=1, weight_version=0)
        with pytest.raises(ValueError, match="step"):
            writer.metrics({"step": 1.0}, step=1, iteration=1, epoch=1, weight_version=0)
        writer.flush()
    event = lines(writer.paths.events)[0]
    assert event["data"] == {"step": 1, "loss": 0.5} and event["message"] == "step 1 [31mred"
    assert event["type"] == event["event_type"] == "rl.train.step" and event["attempt"] == 1
    assert event["created_at"] == event["timestamp"] == "2025-06-15T15:06:40.000Z"
    (line,) = lines(writer.paths.metrics)
    assert line["nonfinite"] == ["gspo/loss", "entropy"] and "gspo/loss" not in line
    assert line["turns/mean"] == 2 and line["reward/mean"] == 0.5
    status = RunReader(root).status()
    assert status is not None and status["latest"] == {"reward/mean": 0.5, "turns/mean": 2}


def test_groups_judge_calls_and_learner_blocks(root: Path, writer_at: Make) -> None:
    with writer_at() as writer:
        n = writer.episode(episode())
        arr = writer.learner_block(n, 0, {"logp_learner": np.array([0, -1.5], np.float32)})
        writer.update(n, step=1, iteration=1, kind="use", branch=0, w=1.0, s=1.0123456789, arr=arr)
        writer.update(n, step=2, iteration=1, kind="mask", branch=0, excl="stale", detail={"lag": 3})
        group = GroupRecord(
            step=2,
            iteration=1,
            group=0,
            seed=7,
            split="train",
            members=[0],
            rewards=[0.5],
            mean=0.5,
            std=0.0,
            dead=True,
        )
        writer.group(group)
        call = JudgeRecord(
            step=2,
            iteration=1,
            n=n,
            cid="c",
            kind="outcome",
            turn=None,
            source="llm",
            provider="p",
            model="m",
            rubric_id=None,
            rubric_hash=None,
            key="k",
            reply="x" * 5_000,
        )
        assert writer.judge(call) == 0
        second = writer.judge(call)
    reader = RunReader(root)
    known = reader.merged_updates(n)
    assert known["branches"][0]["s"] == 1.01235 and known["excl"] == "stale" and known["detail"] == {"lag": 3}
    assert reader.token_block(known["branches"][0]["arr"])["logp_learner"].tolist() == [0, -1.5]
    assert reader.groups()[0]["members"] == [0] and reader.groups()[0]["t"] > 0
    calls = reader.judge_after()
    assert calls.offsets == [0, second] and len(calls.rows[0]["reply"]) == 2_000
    assert reader.judge_after(calls.cursor).rows == []


def test_a_new_attempt_cuts_torn_tails_and_counts_on(root: Path, writer_at: Make) -> None:
    with writer_at() as writer:
        for number in range(3):
            writer.episode(episode(number))
            writer.event("rl.phase", "x", step=number)
            writer.metrics({"a/b": number}, step=number, iteration=0, epoch=0, weight_version=0)
            writer.update(number, step=1, iteration=1, kind="group", adv=0.5)
        writer.status(state="failed", end_reason="error", best={"step": 1, "iteration": 1, "path": "p"})
    whole = {path: path.read_bytes() for path in [*writer.paths.rollouts.iterdir(), writer.paths.events]}
    for path in whole:
        if path.suffix == ".jsonl":
            with path.open("ab") as file:
                file.write(b'{"seq": 99, "torn')
    with writer_at(attempt=2) as writer:
        assert writer.next_n == 3 and writer.last_seq == 3
        assert all(path.read_bytes() == data for path, data in whole.items())
        assert writer.event("rl.resumed", "on", step=1, from_step=1) == 4
        writer.status(state="running")
        status = writer.document
    assert status.attempt == 2 and status.end_reason is None and status.finished_at is None
    assert status.best is not None and status.best.step == 1


def test_seq_goes_on_past_damaged_and_very_long_lines(root: Path, writer_at: Make) -> None:
    with writer_at() as writer:
        writer.event("rl.phase", "x", step=0, blob="y" * 200_000)
    with writer.paths.events.open("ab") as file:
        file.write(b"\x00\x00garbage\n" * 3)
    with writer_at(attempt=2) as writer:
        assert writer.event("rl.phase", "x", step=0) == 2


def test_status_is_replaced_whole_and_timed(root: Path, writer_at: Make) -> None:
    now = [1_000.0]
    writer = writer_at(clock=lambda: now[0])
    writer.status(state="running", pipeline={"running": 3})
    inode = writer.paths.status.stat().st_ino
    now[0] = 1_002.5
    writer.beat()
    status = RunReader(root).status()
    assert status is not None and writer.paths.status.stat().st_ino != inode
    assert (status["beat"], status["heartbeat"], status["elapsed_s"]) == (1, 1_002.5, 2.5)
    assert status["pid"] == os.getpid() and status["pipeline"]["running"] == 3
    writer.status(state="cancelled", end_reason="stopped")
    writer.close()
    now[0] = 2_000.0
    again = writer_at(clock=lambda: now[0], attempt=2)
    now[0] = 2_001.0
    again.beat()
    assert again.document.elapsed_s == 3.5 and again.document.pipeline.running == 0
    assert not list(root.glob(".*tmp*"))
    again.close()
    again.close()


def test_documents_of_earlier_attempts_stay(root: Path, writer_at: Make) -> None:
    for attempt in (1, 2, 3):
        with writer_at(attempt=attempt) as writer:
            writer.resolved({"schema": 1, "of": attempt})
            writer.resolved({"schema": 1, "of": attempt})
            writer.environment({"host": "h"})
    assert [json.loads((root / f"resolved{part}.json").read_text())["of"] for part in (".1", ".2", "")] == [
        1,
        2,
        3,
    ]
    assert json.loads((root / "environment.1.json").read_text())["attempt"] == 1


def test_a_crash_between_two_documents_leaves_one_to_resume_by(root: Path, writer_at: Make, monkeypatch) -> None:
    with writer_at() as writer:
        writer.resolved({"schema": 1, "of": 1})

    def killed(paths, name, data, disk=None):
        if name == "resolved.json":
            raise KeyboardInterrupt
        replace_file(paths, name, data, disk)

    with monkeypatch.context() as patch, writer_at(attempt=2) as writer:
        patch.setattr("trainer.rundir.writer.replace_file", killed)
        with pytest.raises(KeyboardInterrupt):
            writer.resolved({"schema": 1, "of": 2})
    assert [json.loads((root / f"resolved{part}.json").read_text())["of"] for part in (".1", "")] == [1, 1]


def test_what_a_killed_attempt_half_wrote_is_removed_and_the_lock_of_another_start_is_not(root, writer_at) -> None:
    with writer_at():
        (root / ".status.json.tmp-7").write_text("{")
        (root / ".reserve.tmp-7").write_bytes(bytes(100))
        (root / ".lock.tmp-8").write_text("{}")
    with writer_at(attempt=2):
        assert [path.name for path in root.glob(".*")] == [".lock.tmp-8"]


def test_the_reserve_is_real_while_the_run_goes(root: Path, writer_at: Make) -> None:
    with writer_at() as writer:
        stat = writer.paths.reserve.stat()
        assert stat.st_size == 1 << 20 and stat.st_blocks * 512 >= 1 << 20
    assert not writer.paths.reserve.exists()


def test_identity_of_the_writer_is_the_coordinators(root: Path, writer_at: Make) -> None:
    with writer_at() as writer:
        here = ProcessId.current()
        assert (writer.document.pid, writer.document.start_time) == (here.pid, here.start_time)
        assert writer.document.pgid == os.getpgid(0)
