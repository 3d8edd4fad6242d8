"""`rltui config get FILE KEY`: one value as TOML, for scripts."""

from __future__ import annotations

import argparse
import sys
from pathlib import Path

from rltui.cli.config.spellings import Document
from rltui.cli.config.values import found_at, leaves
from rltui.cli.configs import (
    add_loading_options,
    config_path,
    open_config,
    read_text,
    refusal,
)
from rltui.cli.keynames import Name, chosen
from rltui.cli.output import FINDINGS, OK, CliError, Json, add_data_options, add_examples, emit, say
from trainer.config import ConfigError
from trainer.config.errors import HIDDEN
from trainer.config.toml_values import format_value


def configure(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("file", metavar="FILE", help="a config, a run's folder, or - for stdin")
    parser.add_argument("key", metavar="KEY", help="a key; inside a free table, too")
    parser.add_argument("--given", action="store_true", help="only what the file itself says, spelt as it is there")
    add_loading_options(parser)
    add_data_options(parser)
    add_examples(
        parser,
        "rltui config get my.toml training.group_size",
        "rltui config get my.toml training.learning_rate --given      5e-5 stays 5e-5",
    )


def run(args: argparse.Namespace) -> int:
    if args.given and args.sets:
        raise CliError("--given prints what the file says, which no --set changes: give one of the two")
    name = chosen(args.key)
    if name.kind in ("section", "old_section"):
        raise CliError(f"{name.path} is a section: rltui config show {args.file} {name.now}")
    if name.kind == "no_effect" and not args.given:
        raise CliError(f"{name.path} has no effect here, so it resolves to nothing; --given prints what the file says")
    try:
        data = _given(name, config_path(args.file)) if args.given else _resolved(name, args)
    except ConfigError as error:
        raise refusal(error, "no value to print") from error
    emit(data, as_json=args.json, out=args.out)
    if data["text"] is None:
        say(f"{data['key']} is not in {args.file}" if args.given else f"{data['key']} is unset")
        return FINDINGS
    if not args.json:
        say(data["text"], sys.stdout)
    return OK


def _resolved(name: Name, args: argparse.Namespace) -> Json:
    key = name.path if name.kind == "inner" else name.now
    if name.kind == "old":
        say(f"{name.path} is an old spelling of {key}")
    values = leaves(open_config(args.file, args.sets, allow_unknown=args.allow_unknown).resolved()["values"])
    leaf = found_at(values, key)
    if leaf is None:
        return {"key": key, "value": None, "text": None, "origin": None}
    return {**leaf.as_dict(), "text": None if leaf.value is None else format_value(leaf.value)}


def _given(name: Name, path: Path) -> Json:
    key = name.path if name.kind == "inner" else name.now
    held = Document(read_text(path), str(path)).spellings(key)
    written = next((item for item in held if item.key == name.path), held[0] if held else None)
    if written is None:
        return {"key": key, "value": None, "text": None, "origin": None}
    if written.text == HIDDEN:
        raise CliError(f"{written.at}: {written.key} looks like a secret and is not printed")
    if written.key != name.path:
        say(f"{path} gives it as {written.key}")
    safe = all(char.isprintable() or char in "\n\r\t" for char in written.text)
    text = written.text if safe else format_value(written.value)  # the same value, with escapes
    return {"key": written.key, "value": written.value, "text": text, "origin": "file", "at": written.at}
