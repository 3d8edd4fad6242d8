"""`rltui config show FILE`: the resolved config as TOML, with the origin of each value beside it if asked."""

from __future__ import annotations

import argparse
import sys
from collections.abc import Iterator

from rltui.cli.config.values import Leaf, leaves, name_in, origin_text, section_of
from rltui.cli.configs import (
    STDIN,
    add_loading_options,
    columns,
    open_config,
    refusal,
    run_of,
)
from rltui.cli.keynames import chosen
from rltui.cli.output import OK, CliError, Json, add_data_options, add_examples, emit, say
from rltui.model.ran_with import run_values
from rltui.sources.base import Unreadable
from rltui.text import clean, fit, width
from trainer.config import ConfigError
from trainer.config.check import missing_keys
from trainer.config.toml_values import format_value

WIDEST = 40  # cells of `key = value` up to which the origins stand in one column


def configure(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("file", metavar="FILE", help="a config, a run (what it runs with), or - for stdin")
    parser.add_argument("name", nargs="?", metavar="SECTION|KEY", help="only this part")
    parser.add_argument("--origin", action="store_true", help="where each value comes from, as a comment")
    which = parser.add_mutually_exclusive_group()
    which.add_argument("--all", action="store_true", help="every key (the default)")
    which.add_argument("--given", action="store_true", help="leave out defaults and derived values")
    add_loading_options(parser)
    add_data_options(parser)
    add_examples(
        parser,
        "rltui config show my.toml --origin",
        "rltui config show my.toml training.lora",
        "rltui config show my.toml --given --set training.seed=3",
    )


def run(args: argparse.Namespace) -> int:
    try:
        resolved = _of_run(args) or open_config(args.file, args.sets, allow_unknown=args.allow_unknown).resolved()
    except ConfigError as error:
        raise refusal(error, "nothing to show") from error
    shown = _selected(leaves(resolved["values"]), args)
    whole = args.name is None and not args.given
    data = resolved if whole else {"file": args.file, "keys": {leaf.key: leaf.as_dict() for leaf in shown}}
    emit(data, as_json=args.json, out=args.out)
    if not args.json:
        for line in _lines(shown, origins=args.origin):
            say(line, sys.stdout)
    return OK


def _of_run(args: argparse.Namespace) -> Json | None:
    """What a run runs with; None: no run is meant, or --set asks for what its config would be. CliError."""
    found = None if args.sets or args.file == STDIN else run_of(args.file)
    try:
        return run_values(found.source) if found is not None else None
    except Unreadable as error:
        folder = found.folder if found is not None else None
        alone = f"; rltui config show {folder}/config.toml reads the config alone" if folder is not None else ""
        raise CliError(f"{found}: {error}{alone}") from error


def _selected(found: dict[str, Leaf], args: argparse.Namespace) -> list[Leaf]:
    part = list(found.values())
    if args.name is not None:
        name = chosen(args.name)
        if name.now != name.path and name.kind != "inner":
            say(f"{name.path} is an old spelling of {name.now}")
        path = name.path if name.kind == "inner" else name.now
        part = [leaf for leaf in part if leaf.key == path or leaf.key.startswith(f"{path}.")]
        if name.kind == "inner" and not part and name.now in found:
            part = [found[name.now]]
    return [leaf for leaf in part if leaf.given or not args.given]


def _lines(shown: list[Leaf], *, origins: bool) -> Iterator[str]:
    """TOML that loads to the same values. What is unset is a comment, because TOML has no word for it.

    So is all of a section that needs a key which is unset: it is as if it were not there.
    """
    pad = max((size for leaf in shown if (size := width(_pair(leaf))) <= WIDEST), default=0)
    sections: dict[str, list[Leaf]] = {}
    for leaf in shown:
        sections.setdefault(section_of(leaf.key), []).append(leaf)
    lacking = set(missing_keys([leaf.key for leaf in shown if leaf.value is not None], [], sections))
    for number, (section, members) in enumerate(sections.items()):
        if number:
            yield ""
        absent = any(leaf.value is None and leaf.key in lacking for leaf in members)
        lines = [f"[{section}]"] if section else []
        lines += [_line(leaf, pad if origins else None) for leaf in members]
        yield from (f"# {line}" if absent and not line.startswith("#") else line for line in lines)


def _line(leaf: Leaf, pad: int | None) -> str:
    """`key = value`, with its origin as a comment in the cell `pad` + 2; a value is never cut, a comment is."""
    pair = _pair(leaf)
    if pad is None:
        return pair
    line = f"{pair}{' ' * max(pad - width(pair), 0)}  # {clean(origin_text(leaf))}"
    return line if width(pair) > columns() - 4 else fit(line, columns())


def _pair(leaf: Leaf) -> str:
    name = name_in(leaf.key)
    return f"# {name} is unset" if leaf.value is None else f"{name} = {format_value(leaf.value)}"
