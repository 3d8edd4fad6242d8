"""`rltui config set FILE KEY VALUE`: changes those keys in the file and not one byte more."""

from __future__ import annotations

import argparse
import difflib
import sys
from pathlib import Path
from typing import Any

from rltui.cli.config.change import Effect, Target, edited, effect, target, typed
from rltui.cli.config.spellings import Document
from rltui.cli.configs import STDIN, add_examples, printable, read_text, refusal, refuse_record, said
from rltui.cli.output import OK, CliError, Json, add_data_options, emit, say, words
from trainer.config import ConfigError, render
from trainer.config.edit import UNSET
from trainer.config.errors import HIDDEN
from trainer.config.save import SaveError, save


def configure(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("file", metavar="FILE", help="the config to change")
    parser.add_argument("pairs", nargs="*", metavar="KEY VALUE", help="a key and its value; a bare word is a string")
    parser.add_argument("--unset", action="append", default=[], metavar="KEY", help="remove a key")
    parser.add_argument("--dry-run", action="store_true", help="print the change as a unified diff, write nothing")
    parser.add_argument("--force", action="store_true", help="write it although the config is not valid then")
    add_data_options(parser)
    add_examples(
        parser,
        "rltui config set my.toml training.learning_rate 5e-5",
        "rltui config set my.toml policy.trainer_mode lora training.lora.r 32 --dry-run",
        "rltui config set my.toml evaluation.seeds '[0, 1, 2]' --unset training.max_lag",
    )


def run(args: argparse.Namespace) -> int:
    if args.file == STDIN:
        raise CliError("a file to change is wanted, not standard input")
    path = Path(args.file).expanduser()
    try:
        before = read_text(path)
        refuse_record(path)
        document = Document(before, args.file)
        targets = _targets(document, args)
        after = edited(before, targets)
        found = effect(before, after, args.file, [item.key for item in targets])
        changes = [_change(item, Document(after, args.file)) for item in targets]
    except ConfigError as error:
        raise refusal(error, "nothing was written") from error
    _tell(found, changes, args)
    wanted = after != before
    if wanted and not args.dry_run:
        try:
            save(path, after, was=before)
        except SaveError as error:
            raise CliError(printable(error.strerror or str(error))) from error
    if args.dry_run and not args.json:
        for line in _diff(before, after, args.file):
            say(printable(_hidden(line, document)), sys.stdout)
    elif not args.json:
        for change in changes:
            say(printable(_told(change, args.file)), words(args))
    data = {"file": args.file, "written": wanted and not args.dry_run, "changes": changes}
    emit(data | {"errors": [item.as_dict() for item in found.broken]}, as_json=args.json, out=args.out)
    return OK


def _targets(document: Document, args: argparse.Namespace) -> list[Target]:
    if len(args.pairs) % 2:
        raise CliError(f"{args.pairs[-1]!a} has no value: give KEY VALUE [KEY VALUE]...")
    asked: dict[str, Any] = {}
    for key, text in zip(args.pairs[::2], args.pairs[1::2], strict=True):
        asked[key] = typed(text)
    for key in args.unset:
        if key in asked:
            raise CliError(f"{key} is both set and unset; give one")
        asked[key] = UNSET
    if not asked:
        raise CliError(f"nothing to change: rltui config set {args.file} KEY VALUE, or --unset KEY")
    targets = [item for key, new in asked.items() for item in target(document, key, new)]
    missing = [key for key in args.unset if not any(item.new is UNSET for item in target(document, key, UNSET))]
    for key in missing:
        say(printable(f"{key} is not in {args.file}"))
    return targets


def _change(item: Target, after: Document) -> Json:
    now = after.written(item.key)
    return {
        "key": item.key,
        "asked": item.asked,
        "old": None if item.was is None else item.was.text,
        "new": None if now is None else now.text,
        "line": now.line if now is not None else item.was.line if item.was is not None else None,
    }


def _tell(found: Effect, changes: list[Json], args: argparse.Namespace) -> None:
    """CliError: the change breaks the config."""
    for change in changes:
        if change["key"] != change["asked"]:
            say(printable(f"{change['asked']} is written as {change['key']}"))
    secret = any(item.code == "secret" for item in found.broken)
    if found.broken and (secret or not (args.force or args.dry_run)):
        count = len(found.broken)
        moved = any(item.code == "migration_conflict" for item in found.broken)
        hint = f"; first: rltui config migrate {args.file}" if moved else "" if secret else " (--force does)"
        raise CliError(
            f"{said(found.broken)}\n{count} new problem{'s' * (count != 1)}; nothing was written{hint}",
            details={"errors": [item.as_dict() for item in found.broken]},
        )
    if found.broken:
        say(said(found.broken))
    if found.left:
        say(f"{len(found.left)} older problem(s) in it: rltui validate {args.file}")
    if found.warnings:
        say(printable(render(found.warnings)))


def _told(change: Json, file: str) -> str:
    old, new = change["old"], change["new"]
    place = f"{file}:{change['line']}"
    if old == new:
        return f"{change['key']} is {new} already   {place}"
    return f"{change['key']}: {'unset' if old is None else old} -> {'unset' if new is None else new}   {place}"


def _diff(before: str, after: str, name: str) -> list[str]:
    lines = difflib.unified_diff(before.splitlines(), after.splitlines(), name, name, lineterm="")
    return list(lines)


def _hidden(line: str, document: Document) -> str:
    for secret in document.secrets():
        line = line.replace(secret, HIDDEN)
    return line
