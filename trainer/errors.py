"""How a run fails: one sentence, what to do, and the exit code that goes with it."""

from __future__ import annotations

import errno
from pathlib import Path

EXIT_OK, EXIT_CONFIG, EXIT_FAILED, EXIT_INTERRUPTED = 0, 2, 3, 130

_DISK = {errno.EROFS, errno.EACCES, errno.EPERM, errno.EIO, errno.ESTALE}


class RunError(RuntimeError):
    """A cause that ends a run.

    Args:
        code: one word of the record, such as task_app_down.
        message: one sentence: what happened, where.
        hint: what to do.
        evidence: proof, such as the end of a log.
        exit_code: 2 for what config or environment must mend, else 3.
    """

    def __init__(
        self, code: str, message: str, hint: str = "", evidence: str = "", exit_code: int = EXIT_FAILED
    ) -> None:
        super().__init__(message)
        self.code, self.message, self.hint = code, message, hint
        self.evidence, self.exit_code = evidence, exit_code

    def record(self) -> dict[str, str]:
        """The `error` entry of status.json (WIRE 5.4)."""
        entry = {"code": self.code, "message": self.message, "hint": self.hint}
        return {**entry, "evidence": self.evidence[:2000]} if self.evidence else entry


def disk_full(folder: Path, cause: Exception) -> RunError:
    """The run folder's disk has no room; what is recorded so far stays."""
    return RunError(
        "disk_full",
        f"no space left on the disk of {folder}: {cause}",
        "free some space, then start the run again; what was recorded so far is kept",
    )


def not_writable(folder: Path, cause: OSError) -> RunError | None:
    """The disk of the run folder takes no writes any more. None: something else failed."""
    if cause.errno not in _DISK:
        return None
    where = f" ({cause.filename})" if cause.filename else ""
    return RunError(
        "run_dir",
        f"the run folder {folder} cannot be written: {cause.strerror}{where}",
        "make it writable again, then go on with rltui train --resume; what was recorded so far is kept",
    )
