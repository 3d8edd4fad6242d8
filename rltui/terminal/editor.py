"""The person's own editor, opened on a text at a line."""

from __future__ import annotations

import os
import shlex
import shutil
import subprocess
import tempfile
from collections.abc import Mapping, Sequence
from pathlib import Path

COMMANDS = ("nano", "vim", "vi")  # where nothing is set
# By the program's name, how it is told the line; the others take `+LINE FILE`.
_COLON = ("code", "codium", "cursor", "hx", "helix", "subl", "zed", "micro")
_WAIT = {"code": ["--wait", "--goto"], "codium": ["--wait", "--goto"], "cursor": ["--wait", "--goto"]}
_WAIT |= {"subl": ["--wait"], "zed": ["--wait"]}


class EditorError(OSError):
    """It could not be opened, or ended badly; the text says why."""


def command(env: Mapping[str, str] = os.environ) -> list[str]:
    """$VISUAL, else $EDITOR, else the first of COMMANDS that is installed. EditorError: none is."""
    for name in ("VISUAL", "EDITOR"):
        if env.get(name, "").strip():
            try:
                return shlex.split(env[name])
            except ValueError as error:
                raise EditorError(f"${name} cannot be read: {error}") from None
    found = next((name for name in COMMANDS if shutil.which(name)), None)
    if found is None:
        raise EditorError("no editor: set $EDITOR")
    return [found]


def at_line(editor: Sequence[str], file: str, line: int) -> list[str]:
    """The whole command that opens `file` at `line` (from 1)."""
    name = Path(editor[0]).name
    if name in _COLON:
        return [*editor, *_WAIT.get(name, ()), f"{file}:{line}"]
    return [*editor, f"+{line}", file]


def edited(text: str, name: str, line: int, env: Mapping[str, str] = os.environ) -> str:
    """`text` after the editor was closed. The terminal is its own meanwhile: suspend the app around this.

    The editor has a copy in a folder of its own, which only the user reads and which is gone afterwards.
    EditorError: it could not be opened, failed, or left no UTF-8 behind; the text is as it was.
    """
    editor = command(env)
    with tempfile.TemporaryDirectory(prefix="rltui-") as folder:
        file = Path(folder, Path(name).name or "config.toml")
        file.write_bytes(text.encode())
        try:
            code = subprocess.run(at_line(editor, str(file), line), check=False).returncode
        except OSError as error:
            raise EditorError(f"{editor[0]}: {error.strerror or error}; set $EDITOR") from None
        if code:
            raise EditorError(f"{editor[0]} ended with {code}; nothing was taken from it")
        try:
            return file.read_bytes().decode()
        except (OSError, UnicodeDecodeError) as error:
            raise EditorError(f"what {editor[0]} left cannot be read: {error}") from None
