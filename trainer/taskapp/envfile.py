"""Files of `NAME=value` lines, as task apps keep their keys in."""

from __future__ import annotations

import os
from collections.abc import MutableMapping
from io import StringIO
from pathlib import Path

from dotenv import dotenv_values
from dotenv.parser import parse_stream

from trainer.taskapp.errors import TaskAppError


def load_env_file(path: Path, environ: MutableMapping[str, str] = os.environ) -> list[str]:
    """Puts the file's variables into `environ` where they are not set there; returns the names that it set.

    Raises TaskAppError, which names the line of a mistake but never repeats it.
    """
    try:
        text = path.read_text(encoding="utf-8-sig")
    except (OSError, UnicodeDecodeError) as error:
        cause = getattr(error, "strerror", None) or "it is not UTF-8 text"
        raise TaskAppError(f"cannot read {path}: {cause}", "Give a file of NAME=value lines") from None
    for binding in parse_stream(StringIO(text)):
        if binding.error or (binding.key is not None and binding.value is None):
            raise TaskAppError(
                f"{path} line {binding.original.line} is not NAME=value", "Correct it, or put # before it"
            )
    given = {name: value for name, value in dotenv_values(stream=StringIO(text)).items() if value is not None}
    added = [name for name in given if name not in environ]
    for name in added:
        environ[name] = given[name]
    return added
