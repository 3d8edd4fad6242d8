"""`rltui config diff A B`: the keys whose resolved values differ, between configs, runs, or one of each."""

from __future__ import annotations

import argparse
import json
import sys
from collections.abc import Iterator

from rltui.cli.config.values import Leaf, leaves, origin_text
from rltui.cli.configs import add_examples, columns, open_config, printable, refusal, run_folder
from rltui.cli.output import FINDINGS, OK, CliError, Json, add_data_options, emit, say, words
from rltui.text import fit
from trainer.config import ConfigError
from trainer.config.toml_values import format_value


def configure(parser: argparse.ArgumentParser) -> None:
    for side in ("a", "b"):
        parser.add_argument(side, metavar=side.upper(), help="a config, a run (what it resolved to), or - for stdin")
    parser.add_argument("--allow-unknown", action="store_true", help="unknown keys are warnings, not errors")
    add_data_options(parser)
    add_examples(
        parser,
        "rltui config diff my.toml sample_configs/demo.toml",
        "rltui config diff runs/demo-rl_0123456789abcdef my.toml",
    )


def run(args: argparse.Namespace) -> int:
    if args.a == args.b == "-":
        raise CliError("standard input can be read once: give - once")
    try:
        a, b = (_side(name, allow_unknown=args.allow_unknown) for name in (args.a, args.b))
    except ConfigError as error:
        raise refusal(error, "nothing was compared") from error
    differences = [
        (key, a.get(key), b.get(key)) for key in dict.fromkeys([*a, *b]) if _value(a.get(key)) != _value(b.get(key))
    ]
    rows = [{"key": key, "a": _data(left), "b": _data(right)} for key, left, right in differences]
    emit({"a": args.a, "b": args.b, "same": not rows, "differences": rows}, as_json=args.json, out=args.out)
    if not args.json:
        for key, left, right in differences:
            for line in _lines(key, left, right):
                say(printable(line), sys.stdout)
    count = len(differences)
    said = "no key differs" if not count else f"{count} key{'s differ' if count != 1 else ' differs'}"
    say(printable(f"{said}: - {args.a}, + {args.b}"), sys.stderr if count else words(args))
    return FINDINGS if differences else OK


def _side(name: str, *, allow_unknown: bool) -> dict[str, Leaf]:
    folder = None if name == "-" else run_folder(name)
    resolved = folder / "resolved.json" if folder else None
    if folder is None or resolved is None or not resolved.exists():
        return leaves(open_config(str(folder or name), allow_unknown=allow_unknown).resolved()["values"])
    try:
        return leaves(json.loads(resolved.read_bytes())["values"])
    except (OSError, ValueError, KeyError, TypeError, AttributeError, RecursionError) as error:
        raise CliError(
            f"{resolved} cannot be read ({type(error).__name__}); compare {folder / 'config.toml'} instead"
        ) from error


def _value(leaf: Leaf | None) -> tuple[str, object]:
    """`true` is not 1; but 1 is 1.0, for an integer is accepted where a number is wanted."""
    value = None if leaf is None else leaf.value
    return ("bool" if isinstance(value, bool) else "", value)


def _data(leaf: Leaf | None) -> Json | None:
    return None if leaf is None else leaf.as_dict()


def _lines(key: str, left: Leaf | None, right: Leaf | None) -> Iterator[str]:
    yield key
    for sign, leaf in (("-", left), ("+", right)):
        if leaf is None:
            yield f"  {sign} not there"
        else:
            value = "unset" if leaf.value is None else format_value(leaf.value)
            origin = f"({origin_text(leaf)})"
            yield f"  {sign} {fit(value, max(columns() - len(origin) - 8, 20))}   {origin}"
