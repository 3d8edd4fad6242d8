"""Files of `NAME=value` lines, as task apps keep their keys in."""

from __future__ import annotations

import os
import re
from collections.abc import MutableMapping
from pathlib import Path

from trainer.taskapp.errors import TaskAppError

_LINE = re.compile(r"(?:export\s+)?([A-Za-z_]\w*)\s*=\s*(.*)")


def load_env_file(path: Path, environ: MutableMapping[str, str] = os.environ) -> list[str]:
    """Puts the file's variables into `environ` where they are not set there; returns the names that it set.

    Raises TaskAppError, which names the line of a mistake but never repeats it.
    """
    try:
        lines = path.read_text(encoding="utf-8").splitlines()
    except (OSError, UnicodeDecodeError) as error:
        cause = getattr(error, "strerror", None) or "it is not UTF-8 text"
        raise TaskAppError(f"cannot read {path}: {cause}", "Give a file of NAME=value lines") from None
    added = []
    for number, line in enumerate(map(str.strip, lines), 1):
        if not line or line.startswith("#"):
            continue
        match = _LINE.fullmatch(line)
        if match is None:
            raise TaskAppError(f"{path} line {number} is not NAME=value", "Correct it, or put # before it")
        name, value = match[1], _value(match[2])
        if name not in environ:
            environ[name] = value
            added.append(name)
    return added


def _value(text: str) -> str:
    """Without the quotes around it, or else without a comment behind it."""
    if len(text) >= 2 and text[0] == text[-1] and text[0] in "\"'":
        return text[1:-1]
    return re.split(r"\s+#", text, maxsplit=1)[0]
