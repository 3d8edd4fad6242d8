"""Copy to the clipboard of the terminal, wherever it runs (OSC 52).

No terminal answers, and many refuse, so no notice claims that the text has arrived.
"""

from __future__ import annotations

import base64
import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

from rltui.terminal.capabilities import Multiplexer, Terminal
from rltui.terminal.passthrough import wrap
from rltui.terminal.private import write_private

# The usual limit of terminals is 100,000 bytes for the whole sequence: 99,992 of base64 and 8 around them.
LIMIT_BYTES = 74_994
_IF = "if your terminal allows it"


@dataclass(frozen=True)
class TooLong:
    """`size` bytes of UTF-8 are more than LIMIT_BYTES."""

    size: int


def osc52(text: str, multiplexer: Multiplexer) -> str | TooLong:
    """The sequence that asks the terminal to put `text` on its clipboard, wrapped for the multiplexer."""
    data = text.encode("utf-8", "replace")
    if len(data) > LIMIT_BYTES:
        return TooLong(len(data))
    return wrap(f"\x1b]52;c;{base64.b64encode(data).decode('ascii')}\x07", multiplexer)


def copy(text: str, terminal: Terminal, write: Callable[[str], None], files_folder: Path) -> str:
    """Copy `text` by `write`, which sends to the terminal, and return what to tell the user.

    What is too long goes to a new file in `files_folder`, and its path is copied.
    """
    size = len(text.encode("utf-8", "replace"))
    if _send(text, terminal, write):
        return f"copied {_size(size)}, {_IF}"
    lead = f"{_size(size)} are too many for the clipboard (most {_size(LIMIT_BYTES)})"
    try:
        path = write_private(files_folder, time.strftime("copy-%Y%m%d-%H%M%S"), text)
    except OSError as error:
        return f"{lead} and could not be written to {files_folder}: {error.strerror or error}"
    _send(str(path), terminal, write)
    return f"{lead}: written to {path}; its path is copied, {_IF}"


def _send(text: str, terminal: Terminal, write: Callable[[str], None]) -> bool:
    sequence = osc52(text, terminal.multiplexer)
    if isinstance(sequence, TooLong):
        return False
    if (
        terminal.multiplexer == "tmux"
    ):  # tmux takes this one under set-clipboard, the wrapped one under allow-passthrough
        plain = osc52(text, "")
        assert isinstance(plain, str)
        sequence = plain + sequence
    write(sequence)
    return True


def _size(size: int) -> str:
    return f"{size} byte{'' if size == 1 else 's'}" if size < 1000 else f"{size / 1000:.1f} kB"
