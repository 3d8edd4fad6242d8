"""What every verb shares about its output: exit codes, errors in words, data as one JSON object.

Data goes to stdout, words go to stderr; a verb asked for `--json` prints nothing else on stdout.
"""

from __future__ import annotations

import argparse
import json
import math
import os
import shutil
import sys
import tempfile
from pathlib import Path
from typing import IO, Any

SCHEMA = 1  # of the objects that --json prints

OK, FINDINGS, USAGE, FAILED, INTERRUPTED = 0, 1, 2, 3, 130

Json = dict[str, Any]


class CliError(Exception):
    """A problem in plain lines: what happened, where, what to do. `code` is the exit status."""

    def __init__(self, message: str, *, code: int = USAGE, details: Json | None = None) -> None:
        super().__init__(message)
        self.code = code
        self.details = details or {}


def add_data_options(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--json", action="store_true", help="print one JSON object, words on stderr")
    parser.add_argument("--out", type=Path, metavar="FILE", help="write that object to FILE")


def emit(data: Json, *, as_json: bool, out: Path | None = None) -> None:
    """Write `data` (with its `schema` first) where the options ask for it: one object on one line.

    ASCII only, so that text from a model cannot act on the terminal it is printed to. NaN and infinities are
    null.
    """
    line = json.dumps(_finite({"schema": SCHEMA, **data}), separators=(",", ":"), allow_nan=False)
    if out is not None:
        _replace(out, line + "\n")
    if as_json:
        print(line, flush=True)


def words(args: argparse.Namespace) -> IO[str]:
    """Where a verb's prose goes: stdout, unless the object goes there."""
    return sys.stderr if args.json else sys.stdout


def say(text: str, stream: IO[str] | None = None) -> None:
    print(text, file=stream or sys.stderr, flush=True)


def safe_streams() -> None:
    """A terminal that cannot show a character gets a replacement, never an exception."""
    for stream in (sys.stdout, sys.stderr):
        if hasattr(stream, "reconfigure"):
            stream.reconfigure(errors="replace")


def abandon_stdout() -> None:
    """The reader closed the pipe: send the rest, and the flush at exit, nowhere."""
    nowhere = os.open(os.devnull, os.O_WRONLY)
    for stream in (sys.stdout, sys.stderr):
        try:
            stream.flush()
        except (BrokenPipeError, ValueError):
            os.dup2(nowhere, stream.fileno())


def _finite(value: Any) -> Any:
    if isinstance(value, float):
        return value if math.isfinite(value) else None
    if isinstance(value, dict):
        return {str(key): _finite(item) for key, item in value.items()}
    if isinstance(value, list | tuple):
        return [_finite(item) for item in value]
    return value if value is None or isinstance(value, str | int | bool) else str(value)


def _replace(path: Path, text: str) -> None:
    try:
        with tempfile.NamedTemporaryFile("w", dir=path.parent, prefix=f".{path.name}.", delete=False) as file:
            file.write(text)
        os.replace(file.name, path)
    except OSError as error:
        raise CliError(f"cannot write {path}: {error.strerror}; give another --out") from error


def program() -> str:
    """How this program can be called again from here: by its name where the PATH has it, else by its path."""
    here = Path(sys.argv[0])
    found = shutil.which(here.name)
    if found is not None and Path(found).samefile(here):
        return here.name
    return str(here) if here.name == "rltui" else f"{sys.executable} -m rltui"
