"""Names and paths of a run folder, and the only ways in which its files are opened (WIRE 5, 5.1)."""

from __future__ import annotations

import errno
import os
import re
import secrets
import stat
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

SCHEMA = 1  # of the whole folder; raised when a meaning changes, not for a new field

INDEX_BYTES = 512
UPDATE_BYTES = 320
TEXT_SEGMENT_BYTES = 64 << 20
TOKEN_SEGMENT_BYTES = 256 << 20
FOLDER_MODE = 0o700
FILE_MODE = 0o600


def new_job_id() -> str:
    """`rl_` and 16 hex digits."""
    return "rl_" + secrets.token_hex(8)


def run_folder_name(label: str, job_id: str) -> str:
    """`<label>-<job id>`; what is outside `[A-Za-z0-9._-]` in the label becomes `-`. It begins with neither a dot, as
    what is hidden, nor a dash, as an option."""
    name = re.sub(r"[^A-Za-z0-9._-]", "-", label).lstrip(".-")[:100]
    return f"{name or 'run'}-{job_id}"


def text_segment(number: int) -> str:
    return f"rollouts/text-{number:05d}.jsonl"


def token_segment(number: int) -> str:
    return f"rollouts/tokens-{number:05d}.bin"


class RunPaths:
    """Where everything of one run lies.

    Links inside the folder are never followed, `checkpoints` excepted.
    """

    def __init__(self, root: str | os.PathLike[str]) -> None:
        self.root = Path(root).absolute()
        self.config = self.root / "config.toml"
        self.resolved = self.root / "resolved.json"
        self.environment = self.root / "environment.json"
        self.status = self.root / "status.json"
        self.events = self.root / "events.jsonl"
        self.metrics = self.root / "metrics.jsonl"
        self.judge = self.root / "judge.jsonl"
        self.rollouts = self.root / "rollouts"
        self.index = self.rollouts / "index.jsonl"
        self.updates = self.rollouts / "updates.jsonl"
        self.groups = self.rollouts / "groups.jsonl"
        self.control = self.root / "control"
        self.control_done = self.control / "done"
        self.checkpoints = self.root / "checkpoints"
        self.weights = self.root / "weights"
        self.logs = self.root / "logs"
        self.trackers = self.root / "trackers"
        self.lock = self.root / "lock"
        self.reserve = self.root / "reserve"

    def __repr__(self) -> str:
        return f"RunPaths({str(self.root)!r})"

    def log(self, source: str) -> Path:
        """`logs/SOURCE.log`; sources: coordinator, gateway, learner-RANK, inference-N, taskapp."""
        return self.logs / f"{source}.log"

    def create(self, checkpoint_dir: str | os.PathLike[str] | None = None, job_id: str = "") -> None:
        """Make the folders (0700). In `checkpoint_dir` (checkpoint.dir), which several runs may share, a folder of this
        run's own is made, named as the run and by its job id, and linked as `checkpoints`."""
        make_folder(self.root, parents=True)
        for folder in (self.rollouts, self.control, self.control_done, self.weights, self.logs):
            make_folder(folder)
        if checkpoint_dir is not None and not os.path.lexists(self.checkpoints):
            name = self.root.name
            own = Path(checkpoint_dir).absolute() / (name if name.endswith(job_id) else f"{name}-{job_id}")
            make_folder(own, parents=True)
            self.checkpoints.symlink_to(own, target_is_directory=True)
        elif not self.checkpoints.is_dir():
            make_folder(self.checkpoints)

    def relative(self, path: str | os.PathLike[str]) -> str:
        """A path inside the run as it is written in records. ValueError: it lies outside."""
        return Path(path).absolute().relative_to(self.root).as_posix()

    def open(self, name: str | os.PathLike[str], flags: int = os.O_RDONLY) -> int:
        """File descriptor of a file of the run, `name` relative or inside it; created files are 0600.

        OSError (ELOOP, ENOTDIR): it, or a folder on the way, is a link. Never blocks on a FIFO.
        """
        path = Path(name)
        relative = path.relative_to(self.root) if path.is_absolute() else path
        if ".." in relative.parts:
            raise ValueError(f"{name} leaves the run folder")
        with _folder(self.root, relative.parts[:-1]) as folder:
            return _open_file(relative.parts[-1], flags, folder)

    def read(self, name: str | os.PathLike[str], offset: int = 0, count: int | None = None) -> bytes:
        """`count` bytes from `offset` (default: to the end). FileNotFoundError if it is not there.

        OSError (EINVAL): a FIFO, a device or the like is in its place.
        """
        return _read(self.open(name), name, offset, count)


def read_whole(path: Path) -> bytes:
    """A file below a checkpoint's folder, opened and refused as those of the run itself."""
    return _read(_open_file(str(path), os.O_RDONLY, None), path)


def _read(fd: int, name: str | os.PathLike[str], offset: int = 0, count: int | None = None) -> bytes:
    """Closes `fd`."""
    try:
        about = os.fstat(fd)
        if not stat.S_ISREG(about.st_mode):
            raise OSError(errno.EINVAL, "it is not a regular file", str(name))
        end = about.st_size if count is None else offset + count
        return read_range(fd, offset, end)
    finally:
        os.close(fd)


def read_range(fd: int, start: int, end: int) -> bytes:
    """Bytes [start, end) of an open file, fewer if it ends before."""
    parts: list[bytes] = []
    while start < end:
        part = os.pread(fd, min(end - start, 1 << 26), start)
        if not part:
            break
        parts.append(part)
        start += len(part)
    return b"".join(parts)


def make_folder(path: Path, parents: bool = False) -> None:
    """A folder of mode 0700 whatever the umask; one that is there already is left as it is.

    NotADirectoryError: a link or a file is in its place (the run folder itself may be reached through links).
    """
    if parents and not path.parent.is_dir():
        make_folder(path.parent, parents=True)
    try:
        path.mkdir(FOLDER_MODE)
    except FileExistsError:
        if not path.is_dir() or (path.is_symlink() and not parents):
            raise NotADirectoryError(f"{path} is in the way: a folder belongs there") from None
        return
    path.chmod(FOLDER_MODE)


@contextmanager
def _folder(root: Path, parts: tuple[str, ...]) -> Iterator[int]:
    """Walk from the root folder by descriptor, so that no link can be slipped in between."""
    fd = os.open(root, os.O_RDONLY | os.O_DIRECTORY)
    try:
        for depth, part in enumerate(parts):
            follow = 0 if (depth == 0 and part == "checkpoints") else os.O_NOFOLLOW
            deeper = os.open(part, os.O_RDONLY | os.O_DIRECTORY | follow, dir_fd=fd)
            os.close(fd)
            fd = deeper
        yield fd
    finally:
        os.close(fd)


def _open_file(name: str, flags: int, folder: int | None) -> int:
    flags |= os.O_NOFOLLOW | os.O_CLOEXEC | os.O_NONBLOCK  # a FIFO in a file's place must not hang us
    if flags & os.O_CREAT:
        try:
            fd = os.open(name, flags | os.O_EXCL, FILE_MODE, dir_fd=folder)
            os.fchmod(fd, FILE_MODE)
            return fd
        except FileExistsError:
            if flags & os.O_EXCL:
                raise
            flags &= ~os.O_CREAT
    return os.open(name, flags, dir_fd=folder)
