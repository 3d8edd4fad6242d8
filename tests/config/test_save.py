"""Saving: all or nothing, never over another's change, mode, links and bytes kept."""

import errno
import os
import stat
from pathlib import Path

import pytest

from trainer.config.save import SaveError, read, save

OLD = "a = 1\n"
NEW = "a = 2\n"


@pytest.fixture
def path(tmp_path: Path) -> Path:
    path = tmp_path / "my.toml"
    path.write_text(OLD)
    return path


def only(path: Path) -> bool:
    """No temporary file is left beside it."""
    return [item.name for item in path.parent.iterdir()] == [path.name]


def test_bytes_go_to_disk_as_they_are(path: Path) -> None:
    text = "\ufeffa = 1\r\nb = 'é'\n# no end"
    save(path, text, was=OLD)
    assert path.read_bytes() == text.encode() and read(path) == text and only(path)
    save(path, NEW, was=text)
    assert path.read_bytes() == NEW.encode()


def test_mode_and_link_are_kept(path: Path, tmp_path: Path) -> None:
    path.chmod(0o640)
    link = tmp_path / "link.toml"
    link.symlink_to("my.toml")
    save(link, NEW, was=OLD)
    assert link.is_symlink() and path.read_text() == NEW
    assert stat.S_IMODE(path.stat().st_mode) == 0o640


def test_a_new_file_has_the_mode_of_any_new_file(tmp_path: Path) -> None:
    save(tmp_path / "new.toml", NEW, was=None)
    (tmp_path / "other").touch()
    assert (tmp_path / "new.toml").stat().st_mode == (tmp_path / "other").stat().st_mode


def test_a_backup_holds_the_old_bytes(path: Path) -> None:
    backup = path.with_suffix(".toml.bak")
    backup.write_text("older")
    save(path, NEW, was=OLD, backup=backup)
    assert (path.read_text(), backup.read_text()) == (NEW, OLD)


@pytest.mark.parametrize(
    ("content", "was", "words"),
    [
        ("a = 3\n", OLD, "changed outside"),
        ("a = 1\r\n", OLD, "changed outside"),
        (None, OLD, "gone"),
        (OLD, None, "exists already"),
    ],
)
def test_what_another_did_is_not_overwritten(path: Path, content: str | None, was: str | None, words: str) -> None:
    path.unlink()
    if content is not None:
        path.write_bytes(content.encode())
    with pytest.raises(SaveError, match=words) as caught:
        save(path, NEW, was=was, backup=path.with_suffix(".bak"))
    assert str(path) in str(caught.value)
    assert [item.read_bytes().decode() for item in path.parent.iterdir()] == ([] if content is None else [content])


def test_a_change_while_the_file_is_being_written_is_seen(path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    fsync = os.fsync

    def meanwhile(fd: int) -> None:
        path.write_text("another's")
        fsync(fd)

    monkeypatch.setattr(os, "fsync", meanwhile)
    with pytest.raises(SaveError, match="changed outside"):
        save(path, NEW, was=OLD)
    assert path.read_text() == "another's" and only(path)


@pytest.mark.parametrize(
    ("number", "words"),
    [
        (errno.ENOSPC, "no space left"),
        (errno.EROFS, "read-only"),
        (errno.EACCES, "you may not write in this folder"),
        (errno.EIO, os.strerror(errno.EIO)),
    ],
)
def test_a_failed_write_leaves_the_old_file(
    path: Path, monkeypatch: pytest.MonkeyPatch, number: int, words: str
) -> None:
    def fail(fd: int) -> None:
        raise OSError(number, os.strerror(number))

    monkeypatch.setattr(os, "fsync", fail)
    with pytest.raises(SaveError, match=words):
        save(path, NEW, was=OLD)
    assert path.read_text() == OLD and only(path)


def test_places_where_nothing_can_be_written(path: Path, tmp_path: Path) -> None:
    with pytest.raises(SaveError, match="folder does not exist"):
        save(tmp_path / "none" / "my.toml", NEW, was=None)
    with pytest.raises(SaveError, match="folder is a file"):
        save(path / "my.toml", NEW, was=None)
    with pytest.raises(SaveError, match="not a regular file"):
        save(tmp_path, NEW, was=OLD)
    with pytest.raises(SaveError, match="was not saved"):
        save(tmp_path / "a\0b", NEW, was=None)
    with pytest.raises(SaveError, match="surrogate"):
        save(path, "\ud800", was=OLD)
    assert path.read_text() == OLD


def test_a_write_protected_file_is_left_alone(path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Replacing it would need no right to write it, so it is asked for."""
    monkeypatch.setattr(os, "access", lambda target, way: way != os.W_OK)
    with pytest.raises(SaveError, match="write-protected"):
        save(path, NEW, was=OLD)
    assert path.read_text() == OLD and only(path)


@pytest.mark.skipif(os.getuid() == 0, reason="root may write anywhere")
def test_a_read_only_folder(path: Path) -> None:
    path.parent.chmod(0o555)
    try:
        with pytest.raises(SaveError, match="you may not write in this folder"):
            save(path, NEW, was=OLD)
    finally:
        path.parent.chmod(0o755)
    assert path.read_text() == OLD and only(path)
