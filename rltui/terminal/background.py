"""Whether the terminal's background is dark, asked of the terminal itself (OSC 11) or told by COLORFGBG."""

from __future__ import annotations

import contextlib
import os
import re
import select
import termios
import time
from collections.abc import Mapping
from typing import Any

# Every terminal answers the second request (DA1), in order: its answer ends the wait for the first one's.
QUERY = b"\x1b]11;?\x1b\\\x1b[c"
# Over a slow link the answers may come after the time is over, and would be read as keys. So they are waited for.
LATE_SSH_S = 1.0

_COLOR = re.compile(rb"(?:\x1b\]|\x9d)11;([^\x07\x1b\x9c]{1,64})(?:\x07|\x1b\\|\x9c)")
_ATTRIBUTES = re.compile(rb"(?:\x1b\[|\x9b)\?[0-9;]*c")
_RGB = re.compile(r"rgba?:([0-9a-f]{1,4})/([0-9a-f]{1,4})/([0-9a-f]{1,4})(?:/[0-9a-f]{1,4})?", re.IGNORECASE)
_MOST = 4096  # bytes that are read; more is no answer
# White and black text are read equally well on a background of this relative luminance (WCAG).
_MIDDLE = 0.179


def query_background(fd_in: int, fd_out: int, timeout_s: float = 0.2, late_s: float = 0.0) -> bool | None:
    """Ask the terminal; True: dark, False: light, None: no terminal, or no answer in `timeout_s` + `late_s`.

    To be called before anything else reads the terminal. What it says in the meantime, keys too, is taken away, so
    that no answer becomes a key press; ctrl+c still interrupts. Never raises for a terminal that fails.
    """
    try:
        if not (os.isatty(fd_in) and os.isatty(fd_out)) or os.tcgetpgrp(fd_in) != os.getpgrp():
            return None
        before = termios.tcgetattr(fd_in)
    except (OSError, termios.error):
        return None
    answer = b""
    try:
        termios.tcsetattr(fd_in, termios.TCSANOW, _unechoed(before))
        os.write(fd_out, QUERY)
        answer = _read_answer(fd_in, timeout_s + late_s)
    except (OSError, termios.error):
        return None
    finally:
        complete = _ATTRIBUTES.search(answer) is not None
        with contextlib.suppress(OSError, termios.error):
            # All answers are in: what waits now are keys. Else it may be half an answer, and goes.
            termios.tcsetattr(fd_in, termios.TCSANOW if complete else termios.TCSAFLUSH, before)
    found = _COLOR.search(answer)
    return is_dark(found[1].decode("ascii", "replace")) if found else None


def _unechoed(attributes: list[Any]) -> list[Any]:
    changed = [*attributes[:6], list(attributes[6])]
    changed[3] &= ~(termios.ECHO | termios.ICANON)
    changed[6][termios.VMIN] = 1
    changed[6][termios.VTIME] = 0
    return changed


def _read_answer(fd: int, timeout_s: float) -> bytes:
    """What the terminal says up to its DA1 answer, or until the time is over."""
    read = b""
    deadline = time.monotonic() + timeout_s
    while len(read) < _MOST and not _ATTRIBUTES.search(read):
        left = deadline - time.monotonic()
        if left <= 0 or not select.select([fd], [], [], left)[0]:
            break
        piece = os.read(fd, 256)
        if not piece:
            break
        read += piece
    return read


def is_dark(color: str) -> bool | None:
    """Of a colour as terminals write it, `rgb:RRRR/GGGG/BBBB` with 1 to 4 digits each, or `rgba:`; else None."""
    found = _RGB.fullmatch(color)
    if found is None:
        return None
    red, green, blue = (_linear(int(digits, 16) / (16 ** len(digits) - 1)) for digits in found.groups())
    return 0.2126 * red + 0.7152 * green + 0.0722 * blue < _MIDDLE


def _linear(value: float) -> float:
    """Of an sRGB channel, 0 to 1."""
    return value / 12.92 if value <= 0.04045 else ((value + 0.055) / 1.055) ** 2.4


def from_colorfgbg(env: Mapping[str, str]) -> bool | None:
    """COLORFGBG is `foreground;background` (some put a field between them), each one of 16 colours or `default`."""
    last = env.get("COLORFGBG", "").rpartition(";")[2]
    if not (last.isascii() and last.isdigit() and int(last) < 16):
        return None
    return int(last) < 7 or int(last) == 8
