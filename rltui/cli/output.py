"""What every verb shares about its output: exit codes, errors in words, data as one JSON object.

Data goes to stdout, words go to stderr; a verb asked for `--json` prints nothing else on stdout.
"""

from __future__ import annotations

import argparse
import json
import math
import os
import shutil
import stat
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


def add_examples(parser: argparse.ArgumentParser, *lines: str, after: str = "") -> None:
    """Commands at the end of the help of a verb, and what follows them."""
    parser.formatter_class = argparse.RawDescriptionHelpFormatter
    parser.epilog = "\n".join(["examples:", *(f"  {line}" for line in lines), *(["", after] if after else [])])


def guard_out(args: argparse.Namespace) -> None:
    """CliError: --out names a file that the verb reads."""
    out = getattr(args, "out", None)
    if not isinstance(out, Path) or not out.is_file():
        return
    given = [item for value in vars(args).values() for item in (value if isinstance(value, list) else [value])]
    for name in given:
        if name is not out and isinstance(name, str | Path) and os.path.exists(name) and out.samefile(name):
            raise CliError(f"--out {out} is the file that is read, and would be lost; give another --out")


def emit(data: Json, *, as_json: bool, out: Path | None = None) -> None:
    """Write `data` (with its `schema` first) where the options ask for it: one object on one line.

    ASCII only, so that text from a model cannot act on the terminal it is printed to. NaN and infinities are
    null.
    """
    line = json.dumps(_finite({"schema": SCHEMA, **data}), separators=(",", ":"), allow_nan=False)
    if out is not None:
        _write(out, line + "\n")
    if as_json:
        say(line, sys.stdout)


def words(args: argparse.Namespace) -> IO[str]:
    """Where a verb's prose goes: stdout, unless the object goes there."""
    return sys.stderr if args.json else sys.stdout


def say(text: str, stream: IO[str] | None = None) -> bool:
    """Print a line. False: its reader has closed the pipe, which ends this output and nothing else."""
    return put(f"{text}\n", stream or sys.stderr)


def put(text: str, stream: IO[str]) -> bool:
    """`text` as it is; see `say`. Words that stderr cannot take are lost, and change no result."""
    try:
        stream.write(text)
        stream.flush()
    except OSError as error:
        if not isinstance(error, BrokenPipeError) and stream is not sys.stderr:
            raise
        _abandon(stream)
        return False
    return True


def safe_streams() -> None:
    """Streams that were closed lead nowhere; a terminal gets a replacement for a character it cannot show."""
    for name, mode in (("stdin", "r"), ("stdout", "w"), ("stderr", "w")):
        if getattr(sys, name) is None:  # `>&-`; in this order, each takes its own descriptor again
            setattr(sys, name, open(os.devnull, mode, encoding="utf-8"))
    for stream in (sys.stdout, sys.stderr):
        if hasattr(stream, "reconfigure"):
            stream.reconfigure(errors="replace")


def settle() -> None:
    """Write out what argparse and others have left in the streams, so that the end of the program cannot fail."""
    for stream in (sys.stdout, sys.stderr):
        try:
            stream.flush()
        except OSError:  # no reader, or no space; who wrote it was told
            _abandon(stream)


def _abandon(stream: IO[str]) -> None:
    """Send what is left in a stream, and all that follows, nowhere."""
    nowhere = os.open(os.devnull, os.O_WRONLY)
    os.dup2(nowhere, stream.fileno())
    os.close(nowhere)


def _finite(value: Any) -> Any:
    if isinstance(value, float):
        return value if math.isfinite(value) else None
    if isinstance(value, dict):
        return {str(key): _finite(item) for key, item in value.items()}
    if isinstance(value, list | tuple):
        return [_finite(item) for item in value]
    return value if value is None or isinstance(value, str | int | bool) else str(value)


def _write(path: Path, text: str) -> None:
    """A file is there whole, or as it was; a link stays one; what is no file (a pipe, a device) is written to."""
    try:
        if not _is_file_or_new(path):
            with path.open("ab") as stream:
                stream.write(text.encode())
            return
        path_behind = Path(os.path.realpath(path))
        with tempfile.TemporaryDirectory(dir=path_behind.parent, prefix=f".{path_behind.name}.") as folder:
            new = Path(folder, path_behind.name)
            new.write_text(text, encoding="utf-8")  # with the rights of any new file
            os.replace(new, path_behind)
    except OSError as error:
        raise CliError(f"cannot write {path}: {error.strerror}; give another --out") from error


def _is_file_or_new(path: Path) -> bool:
    """Whether there is a regular file, or nothing yet. OSError: links that go round, a folder that is closed."""
    try:
        return stat.S_ISREG(os.stat(path).st_mode)
    except FileNotFoundError:
        return True


def program() -> str:
    """How this program can be called again from here: by its name where the PATH has it, else by its path."""
    here = Path(sys.argv[0])
    found = shutil.which(here.name)
    if found is not None and Path(found).samefile(here):
        return here.name
    return str(here) if here.name == "rltui" else f"{sys.executable} -m rltui"
