"""`rltui help [TOPIC]`: the same text as `?` in the interface."""

from __future__ import annotations

import argparse
import difflib
import shutil
import sys
from typing import Any

from rltui.actions.contexts import CONTEXTS
from rltui.actions.guide import TOPICS, lines, topic
from rltui.actions.keymap import keys_file, load
from rltui.cli.output import OK, CliError, Json, add_data_options, add_examples, emit, say
from rltui.text import clean

MOST_COLUMNS = 100  # longer lines are hard to read


def configure(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("topic", nargs="?", metavar="TOPIC", help="a place of the interface, a subject, or a verb")
    add_data_options(parser)
    add_examples(parser, "rltui help", "rltui help keys", "rltui help train", "rltui help monitor --json")


def run(args: argparse.Namespace) -> int:
    from rltui.cli.main import VERBS, main

    if args.topic in VERBS and args.topic not in (*TOPICS, *CONTEXTS):
        return main([args.topic, "--help"])
    data, printed = _topics() if args.topic is None else _topic(args.topic)
    emit(data, as_json=args.json, out=args.out)
    if not args.json:
        for line in printed:
            say(line, sys.stdout)
    return OK


def _topics() -> tuple[Json, list[str]]:
    names = {name: title for name, (title, _) in TOPICS.items()} | {
        name: context.title for name, context in CONTEXTS.items()
    }
    pad = max(map(len, names)) + 2
    printed = ["topics:", *(f"  {name:{pad}}{title}" for name, title in names.items())]
    printed.append("`rltui help TOPIC` prints one; `rltui explain KEY` is the help on keys of a config")
    return {"topics": [{"name": name, "title": title} for name, title in names.items()]}, printed


def _topic(name: str) -> tuple[Json, list[str]]:
    found = topic(name, load(keys_file()))
    if found is None:
        known = [*TOPICS, *CONTEXTS]
        near = difflib.get_close_matches(name, known, n=1)
        hint = f"did you mean {near[0]}?" if near else "`rltui help keys` is one; there are " + ", ".join(known)
        raise CliError(f"no help on {clean(name, 80)!a}; {hint}", details={"nearest": near[0] if near else None})
    columns = min(shutil.get_terminal_size((80, 24)).columns, MOST_COLUMNS)
    data: dict[str, Any] = {
        "topic": name,
        "sections": [
            {
                "title": section.title,
                "about": section.about,
                "keys": [{"keys": keys, "label": label, "help": help} for keys, label, help in section.rows],
            }
            for section in found
        ],
    }
    return data, [_printed(*line) for line in lines(found, columns)]


def _printed(kind: str, left: str, right: str) -> str:
    if kind in ("title", "blank"):
        return left
    return f"  {left}{right}".rstrip()
