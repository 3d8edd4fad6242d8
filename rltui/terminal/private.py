"""Files that only their owner reads."""

from __future__ import annotations

import os
from pathlib import Path


def write_private(folder: Path, stem: str, text: str, suffix: str = ".txt") -> Path:
    """Write a new file `stem.txt` (`stem-2.txt`, ... where it exists) of mode 0600 in `folder`, made if missing.

    OSError if that fails; a file that is cut short is taken away again.
    """
    folder.mkdir(mode=0o700, parents=True, exist_ok=True)
    for number in range(1, 1000):
        path = folder / (f"{stem}{suffix}" if number == 1 else f"{stem}-{number}{suffix}")
        try:
            fd = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
        except FileExistsError:
            continue
        try:
            with open(fd, "wb") as file:
                file.write(text.encode("utf-8", "replace"))
        except OSError:
            path.unlink(missing_ok=True)
            raise
        return path
    raise FileExistsError(f"{folder}: too many files named {stem}")
