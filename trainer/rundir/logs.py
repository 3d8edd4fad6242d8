"""Text of the run's processes: masked, rotated, one file a process (WIRE 5.9)."""

from __future__ import annotations

import logging
import os
import re
import time
from collections.abc import Iterable, Mapping
from pathlib import Path

from trainer.rundir.jsonl import iso
from trainer.rundir.layout import RunPaths

ROTATE_BYTES = 64 << 20
KEPT = 4
_MASK = "***"
_HELD_BYTES = 64 << 10  # of a line whose end is not there yet
_SECRET_NAME = re.compile(r"(key|token|secret|password|passwd|credential)s?(_aliases)?\Z", re.IGNORECASE)

# No pattern may begin with a repetition: on a hostile line it would be tried again from every character.
# A name that says so, with its value: KEY=value, "api_key": "value", Authorization: Bearer value
_NAMED = re.compile(
    r"""(?ix)
    ( (?: api[_-]?keys? (?:_aliases)? | secret | passw(?:or)?d | credentials? | access[_-]?key(?:[_-]id)?
        | (?:auth|access|refresh|bearer|api|hf|run|session)[_-]?token | authorization )
      ["']? \s{0,4} [=:] \s{0,4} ["']? (?: (?:bearer|basic) \s{1,4} )? )
    ( [^\s"',;&}\]]{4,} )
    """
)
# Keys that show by themselves what they are.
_SHAPED = re.compile(
    r"""(?x)
    (?<! [A-Za-z0-9_-] )
    (?: sk-[A-Za-z0-9_-]{16,} | (?:sk|rk|pk)_(?:live|test)_[A-Za-z0-9]{16,} | gsk_[A-Za-z0-9]{16,}
      | hf_[A-Za-z0-9]{16,} | xai-[A-Za-z0-9]{16,} | gh[pousr]_[A-Za-z0-9]{20,} | github_pat_\w{20,}
      | AKIA[0-9A-Z]{16} | AIza[0-9A-Za-z_-]{30,} | xox[abprs]-[A-Za-z0-9-]{10,}
      | eyJ[A-Za-z0-9_-]{10,}\.[A-Za-z0-9_-]{10,}\.[A-Za-z0-9_-]{5,} )
    """
)
_BEARER = re.compile(r"(?i)(bearer\s{1,4})([A-Za-z0-9._~+/=-]{8,})")
_URL_USER = re.compile(r"(://[^\s/:@]{0,100}:)([^\s/@]{1,300})(@)")


def known_secrets(environ: Mapping[str, str]) -> list[str]:
    """Values of variables whose name says that they are secret, longest first.

    What is too short to tell is not.
    """
    values = {
        part.strip()
        for name, value in environ.items()
        if _SECRET_NAME.search(name)
        for part in (value, *value.split(","))
    }
    return sorted((value for value in values if len(value) >= 8), key=len, reverse=True)


def mask_secrets(text: str, known: Iterable[str] = ()) -> str:
    """`text` with key-like strings, and every value in `known`, shown as `***`."""
    for value in known:
        text = text.replace(value, _MASK)
    text = _SHAPED.sub(_MASK, text)
    text = _NAMED.sub(lambda found: found[1] + _MASK, text)
    text = _BEARER.sub(lambda found: found[1] + _MASK, text)
    return _URL_USER.sub(lambda found: found[1] + _MASK + found[3], text)


class LogFile:
    """One `logs/NAME.log`: takes what a child writes as it comes, in any pieces.

    At 64 MB it becomes `.1`, `.1` becomes `.2`, … `.4` goes. Each attempt begins with a line of its own.
    """

    def __init__(
        self,
        path: str | os.PathLike[str],
        *,
        attempt: int | None = None,
        secrets: Iterable[str] = (),
        rotate_bytes: int = ROTATE_BYTES,
    ) -> None:
        self.path = Path(path).absolute()
        self._paths = RunPaths(self.path.parent)
        self._secrets = tuple(secrets)
        self._rotate_bytes = rotate_bytes
        self._held = b""
        self._fd = -1
        self._open()
        if attempt is not None:
            lead = b"" if self._ends_with_line() else b"\n"
            self._put(lead + f"==== attempt {attempt} {iso(time.time())} ====\n".encode())

    def write(self, data: bytes) -> None:
        """Append whole lines, masked.

        The beginning of a line waits for its end, so that no key is cut in two.
        """
        data = self._held + data
        end = max(data.rfind(b"\n"), data.rfind(b"\r")) + 1
        if len(data) - end > _HELD_BYTES:
            end = len(data)
        self._held = data[end:]
        if end:
            self._put_masked(data[:end])

    def flush(self) -> None:
        """Write out the beginning of a line too."""
        held, self._held = self._held, b""
        if held:
            self._put_masked(held)

    def close(self) -> None:
        if self._fd >= 0:
            self.flush()
            os.close(self._fd)
            self._fd = -1

    def __enter__(self) -> LogFile:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def handler(self) -> logging.Handler:
        """For the loggers of this process. A full disk loses lines, and nothing else."""
        return _ToLog(self)

    def _put_masked(self, data: bytes) -> None:
        text = data.decode("utf-8", "replace")
        self._put(mask_secrets(text, self._secrets).encode("utf-8"))

    def _put(self, data: bytes) -> None:
        if self._size and self._size + len(data) > self._rotate_bytes:
            self._rotate()
        view = data
        while view:
            view = view[os.write(self._fd, view) :]
        self._size += len(data)

    def _rotate(self) -> None:
        for number in range(KEPT, 0, -1):
            older = self.path.with_name(f"{self.path.name}.{number}")
            newer = self.path if number == 1 else self.path.with_name(f"{self.path.name}.{number - 1}")
            if os.path.lexists(newer):
                os.replace(newer, older)
        full = self._fd  # closed last: where the disk refuses, what comes next still has its file
        self._open()
        os.close(full)

    def _open(self) -> None:
        self._fd = self._paths.open(self.path.name, os.O_RDWR | os.O_APPEND | os.O_CREAT)
        self._size = os.fstat(self._fd).st_size

    def _ends_with_line(self) -> bool:
        return self._size == 0 or os.pread(self._fd, 1, self._size - 1) == b"\n"


class _ToLog(logging.Handler):
    def __init__(self, log: LogFile) -> None:
        super().__init__()
        self._log = log
        self.setFormatter(logging.Formatter("%(asctime)s %(levelname)s %(message)s"))

    def emit(self, record: logging.LogRecord) -> None:
        try:
            self._log.write(self.format(record).encode(errors="replace") + b"\n")
        except Exception:  # as logging wants it: what is logged must never end the program
            pass
