"""`rltui import DIR`: a run that was copied from elsewhere stands among yours, once it was looked at."""

from __future__ import annotations

import argparse
import signal
import sys
import time
from pathlib import Path
from typing import NoReturn

from rltui.cli.output import FAILED, FINDINGS, OK, CliError, add_examples, emit, program, say, words
from rltui.sources.base import Unreadable
from rltui.sources.find import default_runs_dir
from rltui.sources.importing import bring
from rltui.words import size

TELL_EVERY_S = 5.0


def configure(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("path", metavar="DIR", help="the folder of a run, such as one copied from another machine")
    parser.add_argument("--runs-dir", type=Path, metavar="DIR", help="where runs are (default: runs)")
    parser.add_argument("--json", action="store_true", help="print one JSON object, words on stderr")
    add_examples(parser, "rltui import /mnt/usb/guess-rl_0123456789abcdef", "rltui import ~/runs-of-ann/guess --json")


def run(args: argparse.Namespace) -> int:
    before = signal.signal(signal.SIGTERM, _terminated)
    try:
        found = bring(Path(args.path).expanduser(), (args.runs_dir or default_runs_dir()).expanduser(), _Progress())
    except Unreadable as error:
        raise CliError(f"not imported: {error}", code=FAILED) from error
    finally:
        signal.signal(signal.SIGTERM, before)
    name = found.path.name
    about = {"path": str(found.path), "job_id": found.job_id, "bytes": found.bytes, "notes": list(found.notes)}
    emit({"name": name, **about}, as_json=args.json)
    for note in found.notes:
        say(f"note: {note}")
    named = name if args.runs_dir is None else found.path
    say(f"{found.path}: {size(found.bytes)}; `{program()} show {named}` has it", words(args))
    return FINDINGS if found.notes else OK


class _Progress:
    """Says now and then how far a long copy is."""

    def __init__(self) -> None:
        self._told = time.monotonic()

    def __call__(self, done: int, total: int) -> None:
        if time.monotonic() - self._told >= TELL_EVERY_S:
            self._told = time.monotonic()
            say(f"copied {size(done)} of {size(total)}")


def _terminated(number: int, frame: object) -> NoReturn:
    """What is copied in part goes, as after Ctrl-C."""
    sys.exit(128 + number)
