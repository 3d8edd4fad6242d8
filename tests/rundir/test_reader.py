from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Callable
from operator import itemgetter
from pathlib import Path

import msgspec
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.rundir.conftest import episode
from trainer.rundir import Cursor, ProcessId, RunPaths, RunReader, RunWriter
from trainer.rundir import lines as lines_module
from trainer.rundir.lines import read_lines, seek_line
from trainer.rundir.process import boot_id, host_name
from trainer.rundir.tokens import DamagedBlock

Make = Callable[..., RunWriter]


def test_an_empty_folder_reads_as_a_run_without_records(tmp_path: Path) -> None:
    reader = RunReader(tmp_path / "none")
    assert reader.status() is None and reader.liveness() == "none"
    assert reader.events() == reader.metrics() == reader.groups() == reader.index() == reader.updates(0) == []
    assert reader.episode_count() == 0 and reader.checkpoints() == []


@settings(max_examples=40, deadline=None)
@given(st.lists(st.text(max_size=30), min_size=1, max_size=12), st.data())
def test_reading_while_written_gives_each_line_once(
    tmp_path_factory: pytest.TempPathFactory, texts: list[str], data: st.DataObject
) -> None:
    """The file is written in pieces of any size; the reader looks after each piece."""
    root = tmp_path_factory.mktemp("live")
    stream = b"".join(msgspec.json.encode({"i": i, "text": t}) + b"\n" for i, t in enumerate(texts))
    cuts = sorted(data.draw(st.lists(st.integers(0, len(stream)), max_size=8)))
    paths, cursor, seen = RunPaths(root), Cursor(), []
    for start, end in zip([0, *cuts], [*cuts, len(stream)], strict=True):
        with (root / "f.jsonl").open("ab") as file:
            file.write(stream[start:end])
        part = read_lines(paths, "f.jsonl", cursor, limit=data.draw(st.none() | st.integers(1, 3)))
        assert not part.restarted and not part.damaged
        assert [paths.read("f.jsonl", offset, 1) for offset in part.offsets] == [b"{"] * len(part.rows)
        seen += part.rows
        cursor = part.cursor
    seen += read_lines(paths, "f.jsonl", cursor).rows
    assert [(row["i"], row["text"]) for row in seen] == list(enumerate(texts))


def test_a_shorter_or_another_file_is_read_again_from_its_start(tmp_path: Path) -> None:
    paths, path = RunPaths(tmp_path), tmp_path / "f.jsonl"
    path.write_text('{"a":1}\n{"a":2}\n')
    first = read_lines(paths, "f.jsonl")
    path.write_text('{"a":3}\n')
    shorter = read_lines(paths, "f.jsonl", first.cursor)
    assert shorter.restarted and shorter.rows == [{"a": 3}]
    copy = tmp_path / "copy"
    copy.write_text('{"a":4}\n{"a":5}\n{"a":6}\n')
    os.replace(copy, path)
    other = read_lines(paths, "f.jsonl", shorter.cursor)
    assert other.restarted and [row["a"] for row in other.rows] == [4, 5, 6]
    path.unlink()
    assert read_lines(paths, "f.jsonl", other.cursor).restarted


def test_damaged_lines_are_passed_over_and_named(root: Path, writer_at: Make) -> None:
    with writer_at() as writer:
        for number in range(5):
            writer.episode(episode(number))
            writer.event("rl.phase", "x", step=0)
            writer.update(number, step=1, iteration=1, kind="group", adv=1.0)
        with writer.paths.index.open("r+b") as file:
            file.seek(512 * 2)
            file.write(b"\x00" * 100)
        with writer.paths.updates.open("r+b") as file:
            file.seek(320 * 3)
            file.write(b"\xff" * 50)
        with writer.paths.events.open("ab") as file:
            file.write(b'{"seq":6,\r\n[1]\n')
        writer.event("rl.phase", "x", step=0)
    reader = RunReader(root)
    assert [row["n"] for row in reader.index()] == [0, 1, 3, 4]
    assert [row["n"] for row in reader.index(2, 4)] == [3]
    with pytest.raises(LookupError):
        reader.episode(2)
    assert reader.episode(4)["member"] == 4
    assert reader.updates(3) == [] and reader.updates(4)[0]["adv"] == 1.0
    assert [event["seq"] for event in reader.events()] == [1, 2, 3, 4, 5, 6]
    reader.events()
    places = [(damage.path.name, damage.offset) for damage in reader.damaged]
    assert ("index.jsonl", 1024) in places and len(places) == len(set(places)) == 3


def test_slices_go_on_where_they_ended_and_a_line_may_be_longer(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(lines_module, "SLICE_BYTES", 64)
    lengths = [1, 500, 3, 70, 2_000, 5]
    with (tmp_path / "f.jsonl").open("wb") as file:
        for length in lengths:
            file.write(msgspec.json.encode({"text": "x" * length}) + b"\n")
    paths, cursor, seen = RunPaths(tmp_path), None, []
    while True:
        part = read_lines(paths, "f.jsonl", cursor)
        seen += [len(row["text"]) for row in part.rows]
        cursor = part.cursor
        if not part.more:
            break
    assert seen == lengths


def test_what_never_ends_is_passed_over_in_pieces(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(lines_module, "MAX_LINE_BYTES", 1_000)
    (tmp_path / "f.jsonl").write_bytes(b'{"a":1}\n' + b"x" * 5_000 + b'\n{"a":2}\n')
    paths, cursor, seen, damaged = RunPaths(tmp_path), None, [], 0
    while True:
        part = read_lines(paths, "f.jsonl", cursor, max_bytes=100)
        seen += [row["a"] for row in part.rows]
        damaged += len(part.damaged)
        cursor = part.cursor
        if not part.more:
            break
    assert seen == [1, 2] and 3 <= damaged <= 8


def test_lines_with_a_word_alone_are_read(tmp_path: Path) -> None:
    (tmp_path / "f.jsonl").write_bytes(b'{"a":"one"}\nbroken\n{"a":"two"}\n{"a":"tw')
    part = read_lines(RunPaths(tmp_path), "f.jsonl", containing=b"two")
    assert part.rows == [{"a": "two"}] and part.damaged == [] and part.cursor.offset == 31
    part = read_lines(RunPaths(tmp_path), "f.jsonl", containing=b"none")
    assert part.rows == [] and part.cursor.offset == 31


def test_some_fields_of_rows_also_of_those_that_gave_way(root: Path, writer_at: Make) -> None:
    with writer_at() as writer:
        writer.episode(episode(0))
        writer.episode(episode(1, cid="job-" + "x" * 600))
    reader = RunReader(root)
    assert [set(row) for row in reader.index_fields(("R",), 0, 1)] == [{"n", "attempt", "step", "R"}]
    rows = reader.index_fields(("cid", "stop"), 0, 2)
    assert [row["cid"] for row in rows] == [row["cid"] for row in reader.index()] and rows[1]["stop"] == "completed"


def test_updates_of_numbers_that_cannot_be_cost_nothing(root: Path, writer_at: Make) -> None:
    with writer_at() as writer:
        n = writer.episode(episode())
        for number in (n, 1 << 40, -1):
            writer.update(number, step=1, iteration=1, kind="group", adv=1.0)
    reader = RunReader(root)
    assert len(reader.updates(n)) == 1 and reader.updates(1 << 40) == reader.updates(-1) == []


@pytest.mark.parametrize("count", [0, 1, 3_000])
def test_events_since_any_seq_equal_a_plain_scan(root: Path, writer_at: Make, count: int) -> None:
    with writer_at() as writer:
        for number in range(count):
            writer.event("rl.phase", "x" * (number % 90), step=number)
        reader = RunReader(root)
        for since in (0, 1, 2, 999, 1_500, count - 1, count, count + 5):
            expected = list(range(max(0, since) + 1, count + 1))
            assert [event["seq"] for event in reader.events(since, limit=10_000)] == expected
            assert [event["seq"] for event in reader.events(since, limit=7)] == expected[:7]
        walked: list[int] = []
        while page := reader.events(walked[-1] if walked else 0, limit=500):
            walked += [event["seq"] for event in page]
        assert walked == list(range(1, count + 1))
        seq = writer.event("rl.phase", "new", step=0)
        assert [event["seq"] for event in reader.events(count)] == [seq]


def test_seek_reads_little_of_a_long_file(root: Path, writer_at: Make) -> None:
    with writer_at() as writer:
        for number in range(3_000):
            writer.event("rl.phase", "x" * 50, step=number)
    cursor = seek_line(writer.paths, "events.jsonl", itemgetter("seq"), 2_500)
    rows = read_lines(writer.paths, "events.jsonl", cursor, limit=1).rows
    assert 2_500 - 60 < rows[0]["seq"] <= 2_501


def test_a_row_that_gave_way_is_completed_from_its_text(root: Path, writer_at: Make) -> None:
    long = "job-" + "x" * 600
    with writer_at() as writer:
        writer.episode(episode(cid=long))
    (row,) = RunReader(root).index()
    assert row["cid"] == long and row["R"] == 0.123456789 and row["text"][0] == 0


def test_updates_arrive_while_the_reader_stays_open(root: Path, writer_at: Make) -> None:
    reader = RunReader(root)
    with writer_at() as writer:
        n = writer.episode(episode())
        assert reader.updates(n) == []
        writer.update(n, step=2, iteration=1, kind="group", adv=0.5)
        assert [line["adv"] for line in reader.updates(n)] == [0.5]
        writer.update(n, step=2, iteration=1, kind="use", branch=1, w=0.5)
        assert reader.merged_updates(n)["branches"] == {1: {"w": 0.5, "step": 2}}


def test_liveness_by_the_readers_own_clock(root: Path, writer_at: Make) -> None:
    now = [0.0]
    reader = RunReader(root, clock=lambda: now[0])
    gone = ProcessId(pid=os.getpid(), start_time=1, host=host_name(), boot_id=boot_id())
    elsewhere = msgspec.structs.replace(gone, host="elsewhere")
    with writer_at() as writer:
        writer.status(state="queued")
        assert reader.liveness() == "queued"
        writer.status(state="running")
        writer.beat()
        assert reader.liveness() == "alive"
        now[0] = 61.0
        assert reader.liveness() == "silent"  # the process is there, but hangs
        writer.beat()
        assert reader.liveness() == "alive"
        writer.status(state="succeeded")
        assert reader.liveness() == "ended"
    with writer_at(identity=gone, attempt=2) as writer:
        writer.status(state="running")
        writer.beat()
        assert reader.liveness() == "alive"
        now[0] += 5.9
        assert reader.liveness() == "alive"
        now[0] += 0.1
        assert reader.liveness() == "dead"
    with writer_at(identity=elsewhere, attempt=3) as writer:
        writer.status(state="running")
        assert reader.liveness() == "alive"
        now[0] += 59.0
        assert reader.liveness() == "alive"
        now[0] += 1.0
        assert reader.liveness() == "silent"


def test_readers_and_a_writer_in_other_processes(root: Path) -> None:
    """Real processes: one writes as fast as it can, this one reads; every record is whole when seen."""
    code = "import sys; from trainer.rundir.synth import main; sys.exit(main(sys.argv[1:]))"
    writing = subprocess.Popen([sys.executable, "-c", code, str(root), "--episodes", "1500"], stdout=subprocess.DEVNULL)
    reader, cursor, seen, seqs = RunReader(root), None, 0, [0]
    while True:
        ended = writing.poll() is not None
        count = reader.episode_count()
        for row in reader.index(seen, count):
            assert reader.episode(row["n"])["cid"] == row["cid"]
            assert reader.token_block(row["arr"])["ids"].size == sum(row["tok"])
        seen = count
        part = reader.lines_after("metrics.jsonl", cursor)
        assert not part.restarted
        cursor = part.cursor
        seqs += [event["seq"] for event in reader.events(seqs[-1])]
        if ended:
            break
    assert writing.returncode == 0 and seen > 1_500
    assert seqs == list(range(len(seqs))) and reader.damaged == []


@pytest.mark.parametrize("ref", [None, [], [0, 0], [[0], 0, 9], [0, [0], 9], [0, 0, "9"], [0, -1, 9], [0, 1 << 63, 9]])
def test_a_place_that_can_be_none_is_damage(root: Path, writer_at: Make, ref: object) -> None:
    with writer_at() as writer:
        writer.episode(episode())
        line = RunReader(root).index()[0]
        writer.paths.index.write_bytes(msgspec.json.encode({**line, "text": ref, "arr": ref}).ljust(511) + b"\n")
    reader = RunReader(root)
    with pytest.raises(LookupError):
        reader.episode(0)
    with pytest.raises(DamagedBlock):
        reader.token_block(ref)  # type: ignore[arg-type]
