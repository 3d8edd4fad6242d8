"""A run is deleted after a question that names its size, and never while somebody writes to it."""

from __future__ import annotations

import errno
import os
from collections.abc import Callable
from pathlib import Path

import pytest

from rltui.screens.runs import RunsScreen
from rltui.sources.base import Unreadable
from rltui.sources.deleting import bytes_of, delete
from rltui.words import size
from tests.tui.app_driver import build, run_in, screen_text, until
from trainer.rundir import RunLock


def test_bytes_of_a_run_without_what_links_lead_to(tmp_path: Path) -> None:
    root = run_in(tmp_path, "alpha")
    before = bytes_of(str(root))
    assert before == sum(path.lstat().st_size for path in root.rglob("*") if not path.is_dir())
    (root / "link").symlink_to("/usr")
    assert bytes_of(str(root)) == before


def test_what_links_lead_to_stays(tmp_path: Path) -> None:
    root, elsewhere = run_in(tmp_path / "runs", "alpha"), tmp_path / "scratch"
    elsewhere.mkdir()
    (elsewhere / "weights").write_text("x")
    (root / "elsewhere").symlink_to(elsewhere)
    link = root.with_name("link")
    link.symlink_to(root)
    with pytest.raises(Unreadable, match="is a link"):
        delete(link)
    delete(root)
    assert list((tmp_path / "runs").iterdir()) == [link] and (elsewhere / "weights").exists()


def test_a_run_that_somebody_holds_stays(tmp_path: Path) -> None:
    root = run_in(tmp_path, "alpha")
    with RunLock(root), pytest.raises(Unreadable, match="pid"):
        delete(root)
    assert (root / "status.json").exists()


def test_what_is_left_of_a_delete_that_failed_is_named_and_goes_with_the_next(tmp_path: Path, monkeypatch) -> None:
    root, other = run_in(tmp_path, "alpha"), run_in(tmp_path, "beta", number=2)
    (root / "logs" / "fault").write_text("")
    real = os.unlink

    def broken(name, *, dir_fd=None):
        if name == "fault":
            raise PermissionError(errno.EPERM, "Operation not permitted", name)
        real(name, dir_fd=dir_fd)

    with monkeypatch.context() as patch:
        patch.setattr(os, "unlink", broken)
        with pytest.raises(Unreadable, match=r"only in part.*the rest is in .*\.deleted-"):
            delete(root)
    (rest,) = [path for path in tmp_path.iterdir() if path != other]
    assert rest.name.startswith(f".{root.name}.deleted-")
    delete(other)
    assert list(tmp_path.iterdir()) == []


def test_two_who_clear_the_same_leftover_do_not_disturb_each_other(tmp_path: Path, monkeypatch) -> None:
    root = run_in(tmp_path, "alpha")
    real = os.unlink

    def raced(name, *, dir_fd=None):
        real(name, dir_fd=dir_fd)
        if name == "status.json":  # the other one was faster
            raise FileNotFoundError(errno.ENOENT, "No such file or directory", name)

    monkeypatch.setattr(os, "unlink", raced)
    delete(root)
    assert list(tmp_path.iterdir()) == []


def test_a_run_on_a_full_disk_goes_unless_somebody_holds_it(tmp_path: Path, monkeypatch) -> None:
    root = run_in(tmp_path, "alpha")

    def full(lock):
        raise OSError(errno.ENOSPC, "No space left on device")

    with RunLock(root) as held:
        monkeypatch.setattr(RunLock, "_create", full)
        with pytest.raises(Unreadable, match="is locked"):
            delete(root)
        assert held.paths.status.exists()
    delete(root)
    assert not root.exists()


@pytest.mark.parametrize("content", [b"x", b'{"pid":1,"start_time":1,"host":"other","boot_id":"x","pgid":1}'])
def test_a_lock_that_only_its_reader_can_judge_is_named(tmp_path: Path, content: bytes) -> None:
    root = run_in(tmp_path, "alpha")
    (root / "lock").write_bytes(content)
    with pytest.raises(Unreadable, match=f"remove {root}/lock") as refused:
        delete(root)
    assert "take-over" not in str(refused.value)


async def test_it_is_asked_about_with_its_size_and_goes(folder: Path) -> None:
    root = run_in(folder, "alpha")
    run_in(folder, "beta", number=2)
    app = build(folder)
    async with app.run_test(size=(100, 30)) as pilot:
        await until(app, "2 runs")
        await pilot.press("/", "a", "l", "p", "enter")
        await until(app, "showing 1 of 2")
        await pilot.press("X")
        await until(app, size(bytes_of(str(root))), str(root)[:30], "go for good")
        await pilot.press("enter", "escape")
        await until(app, lambda: "go for good" not in screen_text(app))
        assert root.exists()
        await pilot.press("X")
        await until(app, "go for good")
        await pilot.press("d")
        await until(app, f"{root.name} is deleted", "No run matches", lambda: not root.exists())
    assert [path.name for path in folder.iterdir()] == ["beta-rl_0000000000000002"]


async def test_a_question_that_comes_late_takes_no_answer_to_another(folder: Path, monkeypatch) -> None:
    """The size of a large run is counted for long; by then the person has gone on to another one."""
    large, small = run_in(folder, "large"), run_in(folder, "small", number=2)
    jobs: list[Callable[[], object]] = []
    monkeypatch.setattr(RunsScreen, "_aside", lambda screen, job: jobs.append(job))
    app = build(folder)
    async with app.run_test(size=(100, 30)) as pilot:
        await until(app, "2 runs")
        runs = app.get_screen("runs")
        for run in (large, small):
            runs.query_one("#runs").cursor = runs.rows.find(str(run))
            runs.action_delete()
        late, newer = jobs
        newer()
        await until(app, "go for good", small.name[:10])
        late()
        await pilot.pause()
        await pilot.press("d")
        await until(app, lambda: len(jobs) == 3 and app.screen is runs)
        jobs[-1]()
        await until(app, f"{small.name} is deleted")
    assert large.exists() and not small.exists()


async def test_a_run_that_lives_is_not_asked_about(folder: Path) -> None:
    root = run_in(folder, "alpha", "running")
    app = build(folder)
    async with app.run_test(size=(100, 30)) as pilot:
        await until(app, "1 run")
        await pilot.press("X")
        await until(app, "S stops it first")
    assert root.exists()


async def test_under_readonly_nothing_is_deleted(folder: Path) -> None:
    root = run_in(folder, "alpha")
    app = build(folder, readonly=True)
    async with app.run_test(size=(100, 30)) as pilot:
        await until(app, "1 run")
        await pilot.press("X", "/", "n", "o")
        await until(app, "No run matches")  # no question has taken the letters
    assert root.exists()
