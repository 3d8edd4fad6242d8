"""`rltui config diff A B`: the keys whose resolved values differ, between configs, runs, or one of each."""

from __future__ import annotations

import argparse
import sys
from collections.abc import Iterator
from dataclasses import replace

from rltui.cli.config.values import Leaf, leaves, origin_text
from rltui.cli.configs import columns, counted, open_config, printable, refusal, run_of
from rltui.cli.output import FINDINGS, OK, CliError, Json, add_data_options, add_examples, emit, say, words
from rltui.model.ran_with import run_values
from rltui.sources.base import Unreadable
from rltui.text import ELLIPSIS, fit, width
from trainer.config import ConfigError
from trainer.config.toml_values import format_key, format_value, same


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
        difference for key in dict.fromkeys([*a, *b]) for difference in _differences(key, a.get(key), b.get(key))
    ]
    rows = [{"key": key, "a": _data(left), "b": _data(right)} for key, left, right in differences]
    emit({"a": args.a, "b": args.b, "same": not rows, "differences": rows}, as_json=args.json, out=args.out)
    if not args.json:
        for key, left, right in differences:
            for line in _lines(key, left, right):
                say(printable(line), sys.stdout)
    count = len(differences)
    verdict = f"{counted(count, 'key')} differ{'s' * (count == 1)}" if count else "no key differs"
    say(printable(f"{verdict}: - {args.a}, + {args.b}"), sys.stderr if count else words(args))
    return FINDINGS if differences else OK


def _side(name: str, *, allow_unknown: bool) -> dict[str, Leaf]:
    run = None if name == "-" else run_of(name)
    try:
        resolved = None if run is None else run_values(run.source)
        if resolved is not None:
            return leaves(resolved.get("values", {}))
    except Unreadable as error:
        alone = f"; compare {run.folder / 'config.toml'} instead" if run and run.folder else ""
        raise CliError(f"{run}: {error}{alone}") from error
    return leaves(open_config(run.place if run else name, allow_unknown=allow_unknown).resolved()["values"])


def _differences(key: str, a: Leaf | None, b: Leaf | None) -> Iterator[tuple[str, Leaf | None, Leaf | None]]:
    """Where two values differ in value or in type: of tables, their keys."""
    if a is not None and b is not None and isinstance(a.value, dict) and isinstance(b.value, dict):
        for name in dict.fromkeys([*a.value, *b.value]):
            inner = f"{key}.{format_key(name)}"
            yield from _differences(inner, _part(a, inner, name), _part(b, inner, name))
    elif not (a is None and b is None) and (a is None or b is None or not same(a.value, b.value)):
        yield key, a, b


def _part(table: Leaf, key: str, name: str) -> Leaf | None:
    return replace(table, key=key, value=table.value[name]) if name in table.value else None


def _data(leaf: Leaf | None) -> Json | None:
    return None if leaf is None else leaf.as_dict()


def _lines(key: str, left: Leaf | None, right: Leaf | None) -> Iterator[str]:
    yield key
    texts = [_text(left), _text(right)]
    ahead = next(
        (at for at, (one, other) in enumerate(zip(*texts, strict=False)) if one != other), min(map(len, texts))
    )
    for sign, leaf, text in (("-", left, texts[0]), ("+", right, texts[1])):
        if leaf is None:
            yield f"  {sign} not there"
        else:
            origin = f"({origin_text(leaf)})"
            yield f"  {sign} {_around(text, ahead, max(columns() - width(origin) - 8, 20))}   {origin}"


def _text(leaf: Leaf | None) -> str:
    if leaf is None:
        return ""
    return "unset" if leaf.value is None else format_value(leaf.value)


def _around(text: str, place: int, cells: int) -> str:
    """`text` in at most `cells` cells, cut such that what stands at `place` is seen."""
    if width(text) <= cells:
        return text
    start = max(place - cells // 3, 0)
    return fit((ELLIPSIS if start else "") + text[start:], cells)
