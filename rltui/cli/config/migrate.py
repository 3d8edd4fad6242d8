"""`rltui config migrate FILE`: old spellings become today's, in place; everything else stays to the byte."""

from __future__ import annotations

import argparse
import sys
from pathlib import Path

from rltui.cli.config.spellings import Document
from rltui.cli.configs import (
    STDIN,
    counted,
    printable,
    read_text,
    refusal,
    refuse_json,
    refuse_record,
    said,
)
from rltui.cli.output import FINDINGS, OK, USAGE, CliError, add_data_options, add_examples, emit, put, say
from trainer.config import ConfigError
from trainer.config.rewrite import Rewritten, rewrite
from trainer.config.save import SaveError, free_backup, save


def configure(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("file", metavar="FILE", help="the config to rewrite; FILE.bak keeps what it was")
    how = parser.add_mutually_exclusive_group()
    how.add_argument("--stdout", action="store_true", help="print the new text, write nothing")
    how.add_argument("--check", action="store_true", help="write nothing; exit 1 if something would change")
    add_data_options(parser)
    add_examples(parser, "rltui config migrate my.toml", "rltui config migrate my.toml --check")


def run(args: argparse.Namespace) -> int:
    if args.file == STDIN:
        raise CliError("a file to rewrite is wanted, not standard input")
    path = Path(args.file).expanduser()
    refuse_json(path)
    try:
        before = read_text(path)
        Document(before, args.file).refuse_secrets()
        new = rewrite(before, args.file)
    except ConfigError as error:
        raise refusal(error, "nothing was written") from error
    conflicts = [item for item in new.left if item.level == "error"]
    changes, writes = new.text != before, not (args.stdout or args.check or conflicts)
    backup = None
    if changes and writes:
        refuse_record(path)
        backup = free_backup(path, before)
        try:
            save(path, new.text, was=before, backup=backup)
        except SaveError as error:
            raise CliError(printable(error.strerror or str(error))) from error
    _tell(new, args)
    data = {
        "ok": not conflicts,
        "file": args.file,
        "changes": changes,
        "written": changes and writes,
        "backup": str(backup) if backup else None,
        "moved": [{"old": old, "new": now} for old, now in new.moved],
        "left": [item.as_dict() for item in new.left],
    }
    emit(data | ({"text": new.text} if args.stdout else {}), as_json=args.json, out=args.out)
    if args.stdout and not args.json:
        put(new.text, sys.stdout)
    if conflicts:
        say(printable(f"{counted(len(conflicts), 'conflict')} to settle by hand; {args.file} is as it was"))
        return USAGE
    if changes:
        ending = f"rewritten; what it was is in {backup}" if writes else "would change"
        say(printable(f"{args.file}: {ending}" if not args.stdout else f"{args.file}: printed, not written"))
    else:
        say(printable(f"{args.file}: no old spellings"))
    return FINDINGS if args.check and changes else OK


def _tell(new: Rewritten, args: argparse.Namespace) -> None:
    stream = sys.stderr if args.stdout or args.json else sys.stdout
    for old, now in new.moved:
        say(printable(f"  {old} -> {now}"), stream)
    if new.left:
        say(said(new.left))
