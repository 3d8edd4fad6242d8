"""A text to disk: whole or not at all, and never over somebody else's change."""

from __future__ import annotations

import contextlib
import errno
import itertools
import os
import secrets
import stat
from collections.abc import Callable
from pathlib import Path

_REASONS = {
    errno.ENOSPC: "no space left on the disk; make room and save again",
    errno.EDQUOT: "your disk quota is used up; make room and save again",
    errno.EROFS: "the disk is mounted read-only; save to another place",
    errno.EACCES: "you may not write in this folder; change its rights, or save to another place",
    errno.EPERM: "you may not write in this folder; change its rights, or save to another place",
    errno.ENOENT: "its folder does not exist; make it first",
    errno.ENOTDIR: "its folder is a file; choose another place",
    errno.ENAMETOOLONG: "the name is too long; choose a shorter one",
    errno.ELOOP: "its symbolic links go in a circle; save to another place",
}


class SaveError(OSError):
    """A file that was not written; the text says why and what to do."""


def read(path: Path) -> str:
    """A file's text to the byte, CRLF and BOM included: what `save` wants as `was`.

    Raises:
        OSError, UnicodeDecodeError: it cannot be read, or is no UTF-8.
    """
    return path.read_bytes().decode()


def save(path: Path, text: str, *, was: str | None, backup: Path | None = None) -> None:
    """Writes `text` to `path` in one step: a reader sees the old content or the new one, a crash leaves one of them.

    Args:
        path: the file; of a symbolic link, its target is written. An existing file's mode is kept.
        text: the new content, to the byte (UTF-8; CRLF and a BOM stay as they are in it).
        was: the content that the change was made from (`read`); None: there must be no file.
        backup: where `was` goes first (`free_backup`); a link of that name is replaced, not followed.

    Raises:
        SaveError: the file's content is not `was`, or it cannot be written. The file is as it was.
    """
    try:
        content = text.encode()
    except UnicodeEncodeError:
        raise SaveError(f"{path} was not saved: the text holds half a character (a lone surrogate)") from None
    try:
        target = Path(os.path.realpath(path))
        mode = _check_unchanged(path, target, was)
        if mode is not None and not os.access(target, os.W_OK):
            raise SaveError(f"{path} was not saved: it is write-protected; change its rights, or save to another place")
        if backup is not None and was is not None:
            _write(backup, was.encode(), mode)
        _write(target, content, mode, lambda: _check_unchanged(path, target, was))
    except SaveError:
        raise
    except (OSError, ValueError) as error:  # ValueError: a name with a NUL
        number = error.errno if isinstance(error, OSError) else None
        reason = _REASONS.get(number or 0) or str(getattr(error, "strerror", None) or error)
        raise SaveError(number, f"{path} was not saved: {reason}") from None


def free_backup(path: Path, was: str) -> Path:
    """The first of PATH.bak, PATH.bak.1, ... at which nothing stands, or a file that holds `was` already."""
    names = (f"{path.name}.bak" + (f".{number}" if number else "") for number in itertools.count())
    return next(new for new in map(path.with_name, names) if not os.path.lexists(new) or _holds(new, was))


def _holds(path: Path, content: str) -> bool:
    try:
        return not path.is_symlink() and path.is_file() and path.read_bytes() == content.encode()
    except OSError:
        return False


def _check_unchanged(path: Path, target: Path, was: str | None) -> int | None:
    """The file's mode; None if there is no file, as meant."""
    try:
        status = target.stat()
    except FileNotFoundError:
        if was is not None:
            raise SaveError(f"{path} was not saved: the file is gone; save it under a new name") from None
        return None
    if not stat.S_ISREG(status.st_mode):
        raise SaveError(f"{path} was not saved: it is not a regular file; save to another place")
    if was is None:
        raise SaveError(f"{path} was not saved: the file exists already; choose another name, or edit that file")
    if target.read_bytes() != was.encode():
        raise SaveError(f"{path} was not saved: it was changed outside since it was read; read it again")
    return stat.S_IMODE(status.st_mode)


def _write(target: Path, content: bytes, mode: int | None, last_check: Callable[[], object] = bool) -> None:
    temporary = target.with_name(f".{target.name[:200]}.{secrets.token_hex(4)}")
    fd = os.open(temporary, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o666)
    try:
        with os.fdopen(fd, "wb") as file:
            file.write(content)
            file.flush()
            if mode is not None:
                os.fchmod(fd, mode)
            os.fsync(fd)
        last_check()
        os.replace(temporary, target)
    except BaseException:
        with contextlib.suppress(OSError):
            temporary.unlink()
        raise
    _sync_folder(target.parent)


def _sync_folder(folder: Path) -> None:
    """So that the new name survives a loss of power. Some file systems cannot; the content is safe even so."""
    with contextlib.suppress(OSError):
        fd = os.open(folder, os.O_RDONLY)
        try:
            os.fsync(fd)
        finally:
            os.close(fd)
