"""Reads a config file, and waits for nobody meanwhile."""

import errno
import os
import stat
from pathlib import Path


def first_bytes(path: Path | str, most: int) -> bytes:
    """At most so many bytes of a file. OSError: it cannot be read, or is a FIFO, which may never be written to.

    `<(command)` is read: it leads to an open pipe, which no path names.
    """
    if stat.S_ISFIFO(os.stat(path).st_mode) and os.path.exists(os.path.realpath(path)):
        raise OSError(errno.EINVAL, "it is a pipe, which may never be written to")
    with open(path, "rb") as file:
        return file.read(most)
