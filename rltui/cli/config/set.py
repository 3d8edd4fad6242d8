"""`rltui config set FILE KEY VALUE`: changes those keys in the file; all else stays, comments in their columns."""

from __future__ import annotations

import argparse
import difflib
import sys
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

from rltui.cli.config.change import Effect, Target, edited, effect, target, typed
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
    told,
)
from rltui.cli.output import OK, CliError, Json, add_data_options, add_examples, emit, say
from rltui.text import clean
from trainer.config import ConfigError
from trainer.config.edit import UNSET
from trainer.config.save import SaveError, save
from trainer.config.secrets import masked
from trainer.config.toml_values import split_key


def configure(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("file", metavar="FILE", help="the config to change")
    parser.add_argument("pairs", nargs="*", metavar="KEY VALUE", help="or KEY=VALUE; a bare word is a string")
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
    refuse_json(path)
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
    _refuse(found, args)
    written = after != before and not args.dry_run
    if written:
        try:
            save(path, after, was=before)
        except SaveError as error:
            raise CliError(printable(error.strerror or str(error))) from error
    _tell(found, changes, args)
    if args.dry_run and not args.json:
        for line in _diff(document, Document(after, args.file), args.file):
            say(printable(line), sys.stdout)
    elif not args.json:
        for change in changes:
            say(printable(_told(change, args.file)), sys.stdout)
    data = {"file": args.file, "written": written, "changes": changes}
    emit(data | {"errors": [item.as_dict() for item in found.broken]}, as_json=args.json, out=args.out)
    return OK


def _targets(document: Document, args: argparse.Namespace) -> list[Target]:
    asked: dict[str, Any] = {key: typed(key, text) for key, text in _pairs(args.pairs)}
    for key in args.unset:
        if key in asked:
            raise CliError(f"{masked(key)} is both set and unset; give one")
        asked[key] = UNSET
    if not asked:
        raise CliError(f"nothing to change: rltui config set {args.file} KEY VALUE, or --unset KEY")
    targets = [item for key, new in asked.items() for item in target(document, key, new)]
    missing = [key for key in args.unset if not any(item.new is UNSET for item in target(document, key, UNSET))]
    for key in missing:
        say(printable(f"{masked(key)} is not in {args.file}"))
    return targets


def _pairs(words: Sequence[str]) -> Iterator[tuple[str, str]]:
    """KEY VALUE, KEY=VALUE or KEY = VALUE, in any mixture."""
    rest = list(words)
    while rest:
        word = rest.pop(0)
        key, equals, value = word.partition("=")
        if equals and not _is_key(word):
            yield key, value
            continue
        if rest[:1] == ["="]:
            rest.pop(0)
        if not rest:
            raise CliError(f"{clean(word)!a} has no value: give KEY VALUE [KEY VALUE]...")
        yield word, rest.pop(0)


def _is_key(text: str) -> bool:
    try:
        split_key(text)
    except ValueError:
        return False
    return True


def _change(item: Target, after: Document) -> Json:
    now = after.written(item.key)
    return {
        "key": masked(item.key),
        "asked": masked(item.asked),
        "old": None if item.was is None else item.was.text,
        "new": None if now is None else now.text,
        "line": now.line if now is not None else item.was.line if item.was is not None else None,
    }


def _refuse(found: Effect, args: argparse.Namespace) -> None:
    """CliError: the change breaks the config, and nobody wants that."""
    secret = any(item.code == "secret" for item in found.broken)
    if not found.broken or (not secret and (args.force or args.dry_run)):
        return
    moved = any(item.code == "migration_conflict" for item in found.broken)
    hint = f"; first: rltui config migrate {args.file}" if moved else "" if secret else " (--force does)"
    raise CliError(
        f"{said(found.broken)}\n{counted(len(found.broken), 'new problem')}; nothing was written{hint}",
        details={"errors": [item.as_dict() for item in found.broken]},
    )


def _tell(found: Effect, changes: list[Json], args: argparse.Namespace) -> None:
    for change in changes:
        if change["key"] != change["asked"]:
            say(printable(f"{change['asked']} is written as {change['key']}"))
    if found.broken:
        say(said(found.broken))
    if found.left:
        say(f"{counted(len(found.left), 'older problem')} in it: rltui validate {args.file}")
    if found.warnings:
        say(told(found.warnings))


def _told(change: Json, file: str) -> str:
    old, new = change["old"], change["new"]
    place = f"{file}:{change['line']}"
    if old == new:
        return f"{change['key']} is {new} already   {place}"
    return f"{change['key']}: {'unset' if old is None else old} -> {'unset' if new is None else new}   {place}"


def _diff(before: Document, after: Document, name: str) -> list[str]:
    old, new = before.masked().splitlines(), after.masked().splitlines()
    return list(difflib.unified_diff(old, new, name, name, lineterm=""))
