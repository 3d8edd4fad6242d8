"""`rltui keys`: every action with its keys, the user's own applied; what is wrong in their file."""

from __future__ import annotations

import argparse
import shutil
import sys

from rltui.actions.contexts import CONTEXTS
from rltui.actions.guide import key_cell
from rltui.actions.keymap import Keymap, keys_file, load
from rltui.actions.table import ACTIONS, of_context
from rltui.cli.output import FINDINGS, OK, USAGE, Json, add_data_options, add_examples, emit, say
from rltui.text import fit, width


def configure(parser: argparse.ArgumentParser) -> None:
    add_data_options(parser)
    add_examples(
        parser,
        "rltui keys",
        "rltui keys --json",
        after=(
            "* marks what your keys.toml changed; `rltui help keys` says how to write one\n"
            "exit status: 1 two actions of one place have the same key, 2 a line of the file cannot be used"
        ),
    )


def run(args: argparse.Namespace) -> int:
    """Exit status: 1 where two lines want the same key, 2 where a line of the file says nothing usable."""
    path = keys_file()
    keymap = load(path)
    emit(_data(keymap, str(path)), as_json=args.json, out=args.out)
    if not args.json:
        columns = max(shutil.get_terminal_size((160, 24)).columns, 20)
        lines = _lines(keymap)
        for line in lines:
            say(fit(line, columns), sys.stdout)
        if any(width(line) > columns for line in lines):
            say(f"cut to {columns} columns; `rltui help PLACE` has the whole sentences, --json all of this")
    for found in (*keymap.problems, *(f"{path}: {conflict}" for conflict in keymap.conflicts)):
        say(str(found))
    return USAGE if keymap.problems else FINDINGS if keymap.conflicts else OK


def _data(keymap: Keymap, path: str) -> Json:
    return {
        "ok": not (keymap.problems or keymap.conflicts),
        "file": path,
        "actions": [
            {
                "id": action.id,
                "context": action.context,
                "keys": list(keymap.of(action.id)),
                "default": list(action.keys),
                "changed": action.id in keymap.changed,
                "label": action.label,
                "help": action.help,
                "cli": action.cli,
                "writes": action.writes,
            }
            for action in ACTIONS
        ],
        "problems": [{"line": problem.line, "message": problem.message} for problem in keymap.problems],
        "conflicts": [{"key": conflict.key, "actions": list(conflict.ids)} for conflict in keymap.conflicts],
    }


def _lines(keymap: Keymap) -> list[str]:
    ids = max(len(action.id) for action in ACTIONS) + 2
    keys = max(len(key_cell(keymap.of(action.id), ascii=True)) for action in ACTIONS) + 2
    lines: list[str] = []
    for context, place in CONTEXTS.items():
        lines += ["", place.title] if lines else [place.title]
        for action in of_context(context):
            mark = "*" if action.id in keymap.changed else " "
            shown = key_cell(keymap.of(action.id), ascii=True)
            lines.append(f" {mark}{shown:{keys}}{action.id:{ids}}{action.help}")
    return lines
