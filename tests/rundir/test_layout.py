from __future__ import annotations

import os
from pathlib import Path

import pytest

from tests.rundir.conftest import episode
from trainer.rundir import LogFile, RunLock, RunPaths, RunWriter, ask, new_job_id, run_folder_name


@pytest.mark.parametrize("umask", [0o000, 0o022, 0o777])
def test_folders_are_0700_and_files_0600_whatever_the_umask(root: Path, umask: int) -> None:
    before = os.umask(umask)
    try:
        with RunLock(root), RunWriter(root, job_id="rl_1", label="x") as writer:
            writer.episode(episode())
            writer.event("rl.phase", "training", step=0)
            writer.status(state="running")
            writer.resolved({"schema": 1})
            ask(root, "pause", client="test")
            with LogFile(writer.paths.log("taskapp"), attempt=1) as log:
                log.write(b"hello\n")
            seen = {path: path.stat().st_mode & 0o777 for path in [root, *root.rglob("*")]}
    finally:
        os.umask(before)
    assert len(seen) > 15
    assert {oct(mode) for path, mode in seen.items() if path.is_dir()} == {"0o700"}
    assert {oct(mode) for path, mode in seen.items() if path.is_file()} == {"0o600"}


def test_links_in_a_run_are_never_followed(root: Path, tmp_path: Path) -> None:
    outside = tmp_path / "outside"
    outside.write_text('{"state": "running"}')
    paths = RunPaths(root)
    paths.create()
    paths.status.symlink_to(outside)
    with pytest.raises(OSError, match="symbolic link"):
        paths.open("status.json")
    (tmp_path / "elsewhere").mkdir()
    (tmp_path / "elsewhere" / "index.jsonl").write_text("x")
    paths.rollouts.rmdir()
    paths.rollouts.symlink_to(tmp_path / "elsewhere")
    with pytest.raises(OSError):
        paths.open("rollouts/index.jsonl")
    with pytest.raises(NotADirectoryError, match="in the way"):
        RunWriter(root, job_id="rl_1", label="x")
    with pytest.raises(ValueError, match="leaves"):
        paths.open("../outside")
    assert outside.read_text() == '{"state": "running"}'


def test_a_checkpoint_dir_is_linked_and_followed(root: Path, tmp_path: Path) -> None:
    scratch = tmp_path / "scratch" / "deep"
    with RunWriter(root, job_id="rl_1", label="x", checkpoint_dir=scratch) as writer:
        own = scratch / f"{root.name}-rl_1"
        assert writer.paths.checkpoints.resolve() == own
        (own / "latest.json").write_text("{}")
        assert writer.paths.read("checkpoints/latest.json") == b"{}"


def test_runs_that_share_a_checkpoint_dir_do_not_share_checkpoints(tmp_path: Path) -> None:
    scratch = tmp_path / "scratch"
    folders = {"a/run": "rl_1", "b/run": "rl_2", "b/run-rl_3": "rl_3"}  # two of one name
    found = []
    for name, job_id in folders.items():
        for attempt in (1, 2):  # a resume stays with its own
            with RunWriter(tmp_path / name, job_id=job_id, label="run", attempt=attempt, checkpoint_dir=scratch) as one:
                found.append(one.paths.checkpoints.resolve().relative_to(scratch).as_posix())
    assert found == ["run-rl_1"] * 2 + ["run-rl_2"] * 2 + ["run-rl_3"] * 2


def test_a_fifo_in_the_place_of_a_file_is_not_read(root: Path) -> None:
    paths = RunPaths(root)
    paths.create()
    os.mkfifo(paths.status)
    with pytest.raises(OSError, match="not a regular file"):
        paths.read("status.json")


def test_names() -> None:
    job = new_job_id()
    assert len(job) == 19 and job.startswith("rl_")
    assert run_folder_name("my run/ü 1", "rl_1") == "my-run---1-rl_1"
    for label, name in (("../../x", "x"), ("..", "run"), ("\x1b[2J", "2J"), ("--web", "web"), ("_a", "_a")):
        assert run_folder_name(label, "rl_1") == f"{name}-rl_1"
    paths = RunPaths("/a/b")
    assert paths.relative("/a/b/checkpoints/step_3") == "checkpoints/step_3"
    with pytest.raises(ValueError):
        paths.relative("/a/c")
