"""What every kind of `RunSource` owes its readers. A new kind joins by one line in `conftest.KINDS`."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from rltui.sources.base import RunSource, Unreadable
from trainer.rundir import RunPaths, RunReader, RunWriter
from trainer.rundir import reader as reader_module
from trainer.rundir.lines import read_lines
from trainer.rundir.resume import counts
from trainer.rundir.synth import play, write_run
from trainer.rundir.synth_data import SynthConfig

N = 320  # episodes; 10 iterations of 2 steps


def drained(source: RunSource, stream: str, cursor: Any = None, rows: list[Any] | None = None) -> tuple[list[Any], Any]:
    """All rows of a stream after the cursor, with what was taken back."""
    rows = list(rows or [])
    while True:
        part = getattr(source, stream)(cursor)
        if part.rewind is not None:
            rows = [row for row in rows if row["step"] <= part.rewind]
        rows += part.rows
        cursor = part.cursor
        if not part.more:
            return rows, cursor


def test_a_run_that_is_not_there_yet_reads_as_empty(opened: Callable[[Path], RunSource], tmp_path: Path) -> None:
    source = opened(tmp_path / "none")
    assert source.status() is None and source.episode_count() == 0 and source.index(0, 10) == []
    for stream in ("events", "metrics", "groups", "dropped"):
        part = getattr(source, stream)()
        assert part.rows == [] and not part.more and part.rewind is None, stream
    assert source.checkpoints() == source.logs() == source.episodes("train", 1) == []
    assert source.log("coordinator.log").lines == [] and source.log("coordinator.log", tail=True).lines == []
    assert source.updates(0) == {} and source.episode(0) is None and source.answer("x") is None


def test_what_is_read_while_a_run_grows_and_resumes_equals_what_is_read_at_its_end(
    opened: Callable[[Path], RunSource], tmp_path: Path
) -> None:
    """A reader that looks after every iteration, also while an attempt runs whose steps are taken back later."""
    root = tmp_path / "run"
    source = opened(root)
    known: dict[str, tuple[list[Any], Any]] = {"metrics": ([], None), "groups": ([], None)}
    for _ in play(root, SynthConfig(episodes=N, kind="resumed")):
        for stream, (rows, cursor) in known.items():
            known[stream] = drained(source, stream, cursor, rows)
    for stream in known:
        rows = drained(source, stream, known[stream][1], known[stream][0])[0]
        assert rows == drained(opened(root), stream)[0], stream
        assert {row["attempt"] for row in rows} == {1, 2}
    losses = [row["step"] for row in drained(source, "metrics")[0] if "gspo/loss" in row]
    assert losses == list(range(1, 21))


def test_events_by_seq_and_from_the_end(opened: Callable[[Path], RunSource], tmp_path: Path) -> None:
    source = opened(write_run(tmp_path / "run", SynthConfig(episodes=N)))
    rows: list[Any] = []
    cursor, more = None, True
    while more:
        part = source.events(cursor, limit=7)
        rows, cursor, more = rows + part.rows, part.cursor, part.more
    assert [row["seq"] for row in rows] == list(range(1, len(rows) + 1)) and len(rows) > 30
    assert source.events(-5).rows == rows[-5:] and source.events(-10_000).rows == rows
    assert source.events(cursor).rows == []


def test_reads_are_bounded(
    opened: Callable[[Path], RunSource], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(reader_module, "SLICE_LINES", 5)
    source = opened(write_run(tmp_path / "run", SynthConfig(episodes=N)))
    part = source.metrics()
    assert len(part.rows) == 5 and part.more
    rows, cursor = drained(source, "metrics")
    assert len(rows) == len(read_lines(RunPaths(tmp_path / "run"), "metrics.jsonl").rows)
    assert source.metrics(cursor).rows == []


def test_rows_that_no_longer_count_are_named_and_left_out(opened: Callable[[Path], RunSource], tmp_path: Path) -> None:
    root = write_run(tmp_path / "run", SynthConfig(episodes=N, kind="resumed"))
    source, reader = opened(root), RunReader(root)
    resumes = reader.resumes()
    everything = reader.index()
    expected = [row["n"] for row in everything if counts(row, resumes)]
    assert 0 < len(expected) < len(everything) == source.episode_count()
    assert [row["n"] for row in source.index(0, len(everything))] == expected
    ranges, cursor, more = [], None, True
    while more:
        part = source.dropped(cursor)
        ranges, cursor, more = ranges + part.rows, part.cursor, part.more
    gone = {n for n0, n1 in ranges for n in range(n0, n1)}
    assert gone == {row["n"] for row in everything} - set(expected)
    assert source.dropped(cursor).rows == []
    some = source.index(10, 20, ("R", "split"))
    assert [(row["n"], row["R"], row["split"]) for row in some] == [
        (row["n"], row["R"], row["split"]) for row in everything[10:20]
    ]
    assert "cid" not in some[0]


def test_an_episode_with_all_that_became_known_of_it(opened: Callable[[Path], RunSource], tmp_path: Path) -> None:
    root = write_run(tmp_path / "run", SynthConfig(episodes=N, kind="failed"))
    source, reader = opened(root), RunReader(root)
    rows = source.episodes("train", 10)
    assert len(rows) == 32 and {row["iteration"] for row in rows} == {10}
    bad = next(row for row in rows if row["excl"])
    assert source.updates(bad["n"])["excl"] == "group_dropped" and source.episode(bad["n"])["exclusion"]
    good = next(row for row in rows if not row["excl"])
    assert source.updates(good["n"]) == reader.merged_updates(good["n"])
    assert source.updates(good["n"])["branches"][0]["clip"] in ("none", "low", "high")
    assert source.episode(good["n"])["cid"] == good["cid"] and source.episode(10**9) is None


def log_run(root: Path, pieces: dict[str, bytes]) -> Path:
    (root / "logs").mkdir(parents=True)
    for name, data in pieces.items():
        (root / "logs" / name).write_bytes(data)
    return root


def test_a_rotated_log_is_one_text_forwards_and_backwards(opened: Callable[[Path], RunSource], tmp_path: Path) -> None:
    lines = [f"line {i} " + "x" * (i % 50) for i in range(900)]
    parts = ["".join(f"{line}\n" for line in lines[a:b]).encode() for a, b in ((0, 300), (300, 600), (600, 900))]
    root = log_run(tmp_path / "run", dict(zip(("a.log.2", "a.log.1", "a.log"), parts, strict=True)))
    (root / "logs" / "b.log").write_bytes(b"")
    source = opened(root)
    assert source.logs() == [
        {"name": "a.log", "bytes": sum(map(len, parts)), "files": 3},
        {"name": "b.log", "bytes": 0, "files": 1},
    ]
    found, cursor, more = [], None, True
    while more:
        part = source.log("a.log", cursor, 1_000)
        assert sum(len(line) + 1 for line in part.lines) <= 1_000
        found, cursor, more = found + part.lines, part.cursor, part.more
    assert found == lines
    part = source.log("a.log", limit_bytes=1_000, tail=True)
    assert part.lines == lines[-len(part.lines) :] and part.cursor == cursor
    back, pages = part.lines, 1
    while part.back is not None:
        part = source.log("a.log", part.back, 1_000, tail=True)
        back, pages = part.lines + back, pages + 1
    assert back == lines and pages > 20 and not part.more


def test_a_log_is_rotated_while_it_is_followed(opened: Callable[[Path], RunSource], tmp_path: Path) -> None:
    root = log_run(tmp_path / "run", {"a.log": b"one\ntwo\nhalf"})
    log, source = root / "logs" / "a.log", opened(root)
    part = source.log("a.log", tail=True)
    assert part.lines == ["one", "two"] and part.unfinished == "half" and part.back is None
    with log.open("ab") as file:
        file.write(b" done\nthree\n")
    os.rename(log, root / "logs" / "a.log.1")
    log.write_bytes(b"four\n")
    found, cursor, more = [], part.cursor, True
    while more:
        part = source.log("a.log", cursor)
        found, cursor, more = found + part.lines, part.cursor, part.more
    assert found == ["half done", "three", "four"]
    log.write_bytes(b"new\n")  # cut off and begun anew
    assert source.log("a.log", cursor).lines == ["new"]


def test_a_line_without_end_comes_in_pieces(opened: Callable[[Path], RunSource], tmp_path: Path) -> None:
    root = log_run(tmp_path / "run", {"a.log": b"y" * 250_000})
    source = opened(root)
    found, cursor, more = "", None, True
    while more:
        part = source.log("a.log", cursor, 10_000)
        assert len(part.unfinished) <= 4_096
        found, cursor, more = found + "".join(part.lines), part.cursor, part.more
    assert set(found) == {"y"} and len(found) >= 240_000
    part = source.log("a.log", limit_bytes=10_000, tail=True)
    assert part.lines == [] and part.unfinished == "y" * 4_096 and part.back is not None


def test_links_and_other_names_are_no_logs(opened: Callable[[Path], RunSource], tmp_path: Path) -> None:
    (tmp_path / "secret").write_text("secret\n")
    root = log_run(tmp_path / "run", {"a.log": b"x\n", "coordinator.jsonl": b"{}\n"})
    (root / "logs" / "link.log").symlink_to(tmp_path / "secret")
    os.mkfifo(root / "logs" / "pipe.log")
    source = opened(root)
    assert [log["name"] for log in source.logs()] == ["a.log"]
    for name in ("link.log", "pipe.log", "../../secret", "coordinator.jsonl"):
        assert source.log(name).lines == source.log(name, tail=True).lines == []


def test_what_cannot_be_read_says_so_and_the_age_grows(opened: Callable[..., RunSource], tmp_path: Path) -> None:
    now = [0.0]
    root = write_run(tmp_path / "run", SynthConfig(episodes=64))
    source = opened(root, clock=lambda: now[0])
    assert source.status() is not None
    now[0] = 34.0
    os.rename(root / "metrics.jsonl", root / "kept")
    (root / "metrics.jsonl").symlink_to(root / "kept")
    with pytest.raises(Unreadable, match=r"metrics\.jsonl cannot be read"):
        source.metrics()
    os.replace(root / "kept", root / "metrics.jsonl")
    assert source.metrics().rows and source.age() == 34.0
    assert source.status() is not None and source.age() == 0.0
    os.unlink(root / "status.json")
    with pytest.raises(Unreadable, match="moved or deleted"):
        source.status()


def test_a_run_whose_files_are_gone_is_lost_and_nothing_of_it_is_taken_back(
    opened: Callable[[Path], RunSource], tmp_path: Path
) -> None:
    root = write_run(tmp_path / "run", SynthConfig(episodes=64, judge=True))
    source = opened(root)
    streams = ("metrics", "groups", "judge", "uses", "update_lines")
    cursors = {stream: getattr(source, stream)().cursor for stream in streams}
    count, seq = source.episode_count(), source.events().cursor
    for name in ("metrics.jsonl", "judge.jsonl", "rollouts/groups.jsonl", "rollouts/updates.jsonl"):
        os.rename(root / name, root / f"{name}.aside")  # as what deletes a folder comes to them
    for stream in streams:
        with pytest.raises(Unreadable, match="gone"):
            getattr(source, stream)(cursors[stream])
    os.unlink(root / "rollouts/index.jsonl")
    with pytest.raises(Unreadable, match="gone"):
        source.episode_count()
    os.rename(root, tmp_path / "aside")
    for read in (source.status, source.episode_count, source.logs, lambda: source.events(seq)):
        with pytest.raises(Unreadable):
            read()
    os.rename(tmp_path / "aside", root)
    os.rename(root / "metrics.jsonl.aside", root / "metrics.jsonl")
    part = source.metrics(cursors["metrics"])
    assert count and part.rows == [] and part.rewind is None


@pytest.mark.parametrize("status", ["[]", "{}", '{"state": []}', '{"state": 3, "beat": {}}', "{", "\x00"])
def test_a_status_of_strange_shape_is_unreadable(
    opened: Callable[[Path], RunSource], tmp_path: Path, status: str
) -> None:
    (tmp_path / "status.json").write_text(status)
    with pytest.raises(Unreadable, match="damaged"):
        opened(tmp_path).status()


def test_index_rows_of_strange_shape_harm_nobody(opened: Callable[[Path], RunSource], tmp_path: Path) -> None:
    with RunWriter(tmp_path, job_id="rl_0", label="x") as writer:
        pass
    rows = ['{"n":0,"cut":true}', '{"n":1e400}', '{"n":99}', '{"n":"3"}', "{}", '{"n":5,"text":"abc","attempt":[]}']
    writer.paths.index.write_bytes(b"".join(row.encode().ljust(511) + b"\n" for row in rows))
    source = opened(tmp_path)
    assert source.episode_count() == 6
    assert [row["n"] for row in source.index(0, 6)] == [0, 5]
    assert [row["n"] for row in source.index(0, 6, ("R",))] == [0, 5]
    assert source.episode(5) is None and source.episode(1) is None and source.dropped().rows == []


def test_looking_at_runs_loads_nothing_heavy() -> None:
    modules = "rltui.sources.local rltui.sources.folder rltui.model.run rltui.model.steering rltui.model.episode_view"
    code = f"import {', '.join(modules.split())}, sys; print(*sys.modules)"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    heavy = {"numpy", "pydantic", "httpx", "tomlkit", "textual", "psutil", "asyncio"}
    assert not heavy & set(done.stdout.split())


def test_a_lost_run_is_resumed_only_where_it_has_a_checkpoint_for_that(
    opened: Callable[[Path], RunSource], tmp_path: Path
) -> None:
    root = write_run(tmp_path / "run", SynthConfig(episodes=N, kind="crashed"))
    source = opened(root)
    assert f"rltui train --resume {root}" in source.status()["error"]["hint"]
    for optimizer in root.glob("checkpoints/step_*/optimizer/manifest.json"):
        optimizer.unlink()
    hint = source.status()["error"]["hint"]
    assert "no checkpoint to go on from" in hint and "--resume" not in hint
