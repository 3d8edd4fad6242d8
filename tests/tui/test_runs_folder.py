from __future__ import annotations

import os
import shutil
from pathlib import Path

import msgspec
import pytest

from rltui.sources import folder as folder_module
from rltui.sources.base import Unreadable
from rltui.sources.folder import RunsFolder
from trainer.rundir import RunWriter
from trainer.rundir.synth import play, write_run
from trainer.rundir.synth_data import SynthConfig

N = 128  # episodes; 4 iterations of 2 steps
STATES = {
    "healthy": "succeeded",
    "running": "running",
    "crashed": "failed",
    "failed": "failed",
    "resumed": "succeeded",
    "torn": "failed",
}


@pytest.fixture
def runs(tmp_path: Path) -> Path:
    for kind in STATES:
        write_run(tmp_path / kind, SynthConfig(episodes=N, kind=kind))
    return tmp_path


def test_a_row_a_run_with_what_is_known_of_it(runs: Path) -> None:
    (runs / "notes").mkdir()
    (runs / "a file").write_text("")
    (runs / ".hidden").mkdir()
    (runs / "fresh-rl_0123456789abcdef").mkdir()
    folder = RunsFolder(runs)
    rows = {row.name: row for row in folder.scan()}
    assert {name: row.state for name, row in rows.items()} == STATES | {"fresh-rl_0123456789abcdef": "starting"}
    assert folder.scanned == folder.total == len(rows)
    healthy = rows["healthy"]
    assert (healthy.step, healthy.steps, healthy.path) == (8, 8, str(runs / "healthy"))
    assert len(healthy.spark) == 4 and healthy.spark[-1] == healthy.reward and healthy.eval_reward is not None
    assert healthy.created and healthy.updated and healthy.created < healthy.updated
    assert "task app answered 500" in (rows["failed"].error or "") and rows["failed"].hint
    assert "ended without a word" in (rows["crashed"].error or "")
    assert rows["fresh-rl_0123456789abcdef"].job_id == "rl_0123456789abcdef"


def test_the_sparkline_of_a_resumed_run_has_each_step_once(runs: Path) -> None:
    (row,) = (row for row in RunsFolder(runs).scan() if row.name == "resumed")
    assert len(row.spark) == 4


def test_the_sparkline_reads_a_bounded_tail(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    write_run(tmp_path / "run", SynthConfig(episodes=3_200))
    (row,) = RunsFolder(tmp_path).scan()
    assert 20 < len(row.spark) <= 60
    monkeypatch.setattr(folder_module, "TAIL_BYTES", 6_000)
    (short,) = RunsFolder(tmp_path).scan()
    assert 0 < len(short.spark) < len(row.spark) and row.spark[-len(short.spark) :] == short.spark


def test_a_scan_reads_again_only_what_changed(runs: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    folder = RunsFolder(runs)
    first = {row.name: row for row in folder.scan()}
    read: list[str] = []
    original = folder_module.RunsFolder._read

    def noted(self: RunsFolder, path: Path, *args: object) -> object:
        read.append(path.name)
        return original(self, path, *args)  # type: ignore[arg-type]

    monkeypatch.setattr(folder_module.RunsFolder, "_read", noted)
    second = {row.name: row for row in folder.scan()}
    assert read == ["running"] and all(second[name] is first[name] for name in first)
    with RunWriter(runs / "healthy", job_id="rl_0", label="x", attempt=2) as writer:
        writer.status(state="starting")
    third = {row.name: row for row in folder.scan()}
    assert third["healthy"].state == "starting" and sorted(read) == ["healthy", "running", "running"]
    shutil.rmtree(runs / "failed")
    assert "failed" not in {row.name for row in folder.scan()} and folder.total == len(STATES) - 1


def test_a_run_that_goes_on_is_seen_to_go_on(tmp_path: Path) -> None:
    folder = RunsFolder(tmp_path)
    seen = []
    for _ in play(tmp_path / "run", SynthConfig(episodes=N, kind="running")):
        (row,) = folder.scan()
        seen.append((row.step, len(row.spark)))
    assert seen == [(2, 1), (4, 2), (6, 3), (8, 4)]


def test_rows_come_as_they_are_read(runs: Path) -> None:
    folder = RunsFolder(runs)
    scan = folder.scan()
    next(scan)
    assert (folder.scanned, folder.total) == (1, len(STATES))


def test_a_scan_that_is_ended_leaves_the_rest_until_it_is_to_go_on(runs: Path) -> None:
    folder = RunsFolder(runs)
    scan = folder.scan()
    read = [next(scan), next(scan)]
    folder.end()
    assert list(scan) == [] and folder.cut and len(folder.left) == len(STATES) - 2
    again = list(folder.scan())
    assert [row.name for row in again] == [row.name for row in read] and not folder.cut
    write_run(runs / "later", SynthConfig(episodes=N))
    assert {row.name for row in folder.scan()} == {"later", *(row.name for row in read)}
    folder.go_on()
    assert {row.name for row in folder.scan()} == {"later", *STATES}


def test_an_end_that_comes_when_all_was_read_leaves_nothing_out(runs: Path) -> None:
    folder = RunsFolder(runs)
    list(folder.scan())
    folder.end()
    write_run(runs / "later", SynthConfig(episodes=N))
    assert {row.name for row in folder.scan()} == {"later", *STATES} and not folder.left


def test_what_cannot_be_read_stays_a_row_with_its_reason(tmp_path: Path) -> None:
    for name, text in (("torn", b"{"), ("list", b"[]"), ("shape", b'{"state": "running", "latest": 3, "step": "x"}')):
        (tmp_path / name).mkdir()
        (tmp_path / name / "status.json").write_bytes(text)
    (tmp_path / "link").mkdir()
    (tmp_path / "link" / "status.json").symlink_to(tmp_path / "shape" / "status.json")
    folder = RunsFolder(tmp_path)
    rows = {row.name: row for row in folder.scan()}
    assert {name: row.state for name, row in rows.items()} == {
        "torn": "unreadable",
        "list": "unreadable",
        "link": "unreadable",
        "shape": "running",
    }
    assert "damaged" in (rows["torn"].problem or "") and "cannot be read" in (rows["link"].problem or "")
    assert rows["shape"].step is None and rows["shape"].reward is None
    (tmp_path / "torn" / "status.json").write_bytes(b'{"state": "succeeded"}')
    assert {row.name: row.state for row in folder.scan()}["torn"] == "succeeded"


def test_names_and_words_of_a_hostile_run_are_cleaned(tmp_path: Path) -> None:
    root = tmp_path / "a\x1b[2Jb"
    root.mkdir()
    status = {"state": "failed", "label": "\x1b]52;c;x\x07l", "error": {"message": "\u202ex\n" * 9_999}}
    (root / "status.json").write_bytes(msgspec.json.encode(status))
    (row,) = RunsFolder(tmp_path).scan()
    assert (row.name, row.label, row.path) == ("ab", "l", str(root))
    assert row.error is not None and len(row.error) <= 301 and not any(c in row.error for c in "\x1b\n\u202e")


def test_no_folder_has_no_runs_and_one_that_cannot_be_listed_says_so(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert list(RunsFolder(tmp_path / "none").scan()) == []
    (tmp_path / "file").touch()
    with pytest.raises(Unreadable, match="file is not a folder"):
        list(RunsFolder(tmp_path / "file").scan())

    def failing(path: object) -> None:
        raise OSError(5, "Input/output error")

    monkeypatch.setattr(os, "scandir", failing)
    with pytest.raises(Unreadable, match="Input/output error"):
        list(RunsFolder(tmp_path).scan())


@pytest.mark.parametrize("text", ["[" * 100_000, '{"state": ' + '{"a": ' * 100_000, None])
@pytest.mark.parametrize("name", ["bad", "bad-rl_00000000000000ff"])
def test_a_run_that_cannot_be_read_hides_no_other(tmp_path: Path, name: str, text: str | None) -> None:
    write_run(tmp_path / "good", SynthConfig(episodes=N))
    status = tmp_path / name / "status.json"
    status.parent.mkdir()
    if text is None:
        os.mkfifo(status)
    else:
        status.write_text(text)
    rows = {row.name: row for row in RunsFolder(tmp_path).scan()}
    assert {row.state for row in rows.values()} == {"succeeded", "unreadable"}
    words = "damaged" if text else "not a regular file"
    assert "status.json" in str(rows[name].problem) and words in str(rows[name].problem)
