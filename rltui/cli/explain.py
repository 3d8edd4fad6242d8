"""`rltui explain KEY`: what a key does, what it may be, and what it is where nothing is given."""

from __future__ import annotations

import argparse
import sys
from collections.abc import Iterator
from typing import Any

from rltui.cli.config.values import Leaf, leaves, origin_text
from rltui.cli.configs import hanging, open_config, printable, refusal
from rltui.cli.explained import described, found, section_row
from rltui.cli.keynames import Name, called, meanings, old_sections, spoken_of, unknown
from rltui.cli.output import OK, CliError, Json, add_data_options, add_examples, emit, say
from rltui.text import clean
from trainer.config import ConfigError
from trainer.config.keys import all_sections
from trainer.config.toml_values import format_value

MOST_ALSO = 8  # keys that are named beside the one that is meant
LABEL = 11  # cells of the word that stands before a fact


def configure(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("key", nargs="?", metavar="KEY", help="a key, its last part, a section, or a word")
    parser.add_argument("--config", metavar="FILE", help="also say what it is in this config, and why")
    add_data_options(parser)
    add_examples(
        parser,
        "rltui explain                             the sections",
        "rltui explain training.group_size",
        "rltui explain max_lag --config my.toml    its value there, and where that comes from",
        "rltui explain model.base                  an old spelling",
        "rltui explain num_generations             what other systems call so; else keys that speak of the word",
    )


def run(args: argparse.Namespace) -> int:
    data = _sections_data() if args.key is None else _data(args.key, args.config)
    emit(data, as_json=args.json, out=args.out)
    if not args.json:
        for line in _lines(data):
            say(printable(line), sys.stdout)
    return OK


def _sections_data() -> Json:
    sections = [section_row(section) for section in all_sections()]
    return {"kind": "sections", "sections": sections, "old_sections": list(old_sections())}


def _data(text: str, config: str | None) -> Json:
    """What `text` means: as a name, else as another system's name, else as a word. CliError: nothing."""
    try:
        names = meanings(text)
    except CliError:  # no name, but maybe a word
        names = []
    synonyms = [] if names else called(text)
    meant = [described(name, _here(name, config)) for name in names or synonyms]
    if synonyms:
        more = [path for path in spoken_of(text) if all(path != name.path for name in synonyms)]
        meant[0] |= {"called": clean(text), "keys": [name.path for name in synonyms], "also": more[:MOST_ALSO]}
    if len(meant) == 1:
        return meant[0]
    if meant:
        return {"kind": "several", "name": text, "meanings": meant}
    data = found(text)
    if not data["keys"]:
        raise unknown(text, words=True)
    return data


def _here(name: Name, config: str | None) -> dict[str, Leaf]:
    """What a config makes of it; empty without one. CliError: the config is not valid."""
    if config is None:
        return {}
    try:
        there = leaves(open_config(config).resolved()["values"])
    except ConfigError as error:
        raise refusal(error, f"so {name.path} has no value there") from error
    below = (f"{name.now}.", f"{name.path}.")
    return {key: leaf for key, leaf in there.items() if key in (name.now, name.path) or key.startswith(below)}


def _lines(data: Json) -> list[str]:
    head = [f"{data['called']} is a name of other systems for {' and '.join(data['keys'])}"] if "called" in data else []
    also = _wrapped(f"also: {', '.join(data['also'])}") if data.get("also") else []
    return [*head, *_meaning(data), *also]


def _meaning(data: Json) -> list[str]:
    match data["kind"]:
        case "several":
            first, *others = data["meanings"]
            return [*_lines(first), *(line for other in others for line in ["", *_lines(other)])]
        case "found":
            return [f"keys that speak of {clean(data['word'])}", *_rows(data["keys"])]
        case "sections":
            return [*_sections(data["sections"]), "", *_wrapped(f"old sections: {', '.join(data['old_sections'])}")]
        case "key":
            return [data["key"], *_key(data)]
        case "inner" | "loader":
            return [data["key"], *_wrapped(data["help"], "  "), *_here_lines(data)]
        case "section":
            return list(_section(data))
        case "old":
            note = f" ({data['note']})" if data["note"] else ""
            head = f"{data['key']}  is an old spelling of {data['now']}{note}; it still works, with a warning"
            return [*_wrapped(head), data["now"], *(_key(data["new"]) if data["new"]["kind"] == "key" else [])]
        case "no_effect":
            return _wrapped(f"{data['key']}  is recognised and has no effect here: {data['why']}")
        case _:
            return list(_old_section(data))


def _key(data: Json) -> Iterator[str]:
    yield from _wrapped(data["help"], "  ")
    name = data["key"].rpartition(".")[2]
    yield _fact("type", data["allowed"] + (f", in {data['unit']}" if data["unit"] else ""))
    yield _fact("default", _default(data))
    if data["example"] is not None:
        yield _fact("example", f"{name} = {format_value(data['example'])}")
    if data["checks"]:
        yield _fact("checks", data["checks"])
    if data["matters_when"]:
        yield _fact("matters", f"when {_condition(data['matters_when'])}")
    if data["live"]:
        yield _fact("live", "it may change while a run is going (rltui steer RUN set), and when it is resumed")
    elif data["resume"]:
        yield _fact("live", "it may differ when a run is resumed")
    else:
        yield _fact("live", "no: a run keeps it")
    if data["why"]:
        yield _fact("why", data["why"])
    if data["old_keys"]:
        yield _fact("old names", ", ".join(data["old_keys"]))
    for old, now in data["old_values"].items():
        meant = ", ".join(f"{key} = {format_value(value)}" for key, value in now.items())
        yield _fact("old value", f"{format_value(old)} means {meant}")
    yield from _here_lines(data)


def _condition(keys: dict[str, list[Any]]) -> str:
    return " and ".join(f"{key} is {' or '.join(map(format_value, values))}" for key, values in keys.items())


def _default(data: Json, *, formula: bool = True) -> str:
    if data["default"] is not None:
        return format_value(data["default"])
    if data["derived"]:
        return f"derived: {data['derived']}" if formula else "derived"
    if data["required"]:
        return "none: it must be given" if formula else "required"
    return "unset"


def _here_lines(data: Json) -> Iterator[str]:
    for leaf in data.get("here", []):
        key = f"{leaf['key']} = " if leaf["key"] != data["key"] else ""
        yield _fact("here", f"{key}{_valued(leaf['value'])}   ({origin_text(leaf)})")


def _section(data: Json) -> Iterator[str]:
    yield from _wrapped(f"[{data['section']}]" + (f"  {data['help']}" if data["help"] else ""))
    yield from _rows(data["keys"], len(data["section"]) + 1)
    yield from _sections(data["sections"], "  ")
    yield from _moved(data)


def _rows(rows: list[Json], strip: int = 0) -> Iterator[str]:
    """One key each: its name, its value or default, its help."""
    names = [row["key"][strip:] for row in rows]
    pad = max(map(len, names), default=0) + 2
    for name, row in zip(names, rows, strict=True):
        value = _valued(row["here"]["value"]) if "here" in row else _default(row, formula=False)
        yield from hanging(f"{value}  {row['help']}", f"  {name:{pad}}")


def _old_section(data: Json) -> Iterator[str]:
    now = f" of [{data['now']}]" if data["now"] else ""
    yield f"[{data['section']}]  is an old section{now}; what stands in it still works, with a warning"
    yield from _moved(data)


def _moved(data: Json) -> Iterator[str]:
    for old, new in data["moved"].items():
        yield f"  {old} -> {new}"
    for key, why in data["no_effect"].items():
        yield from _wrapped(f"{key}: no effect: {why}", "  ", "    ")


def _sections(rows: list[Json], indent: str = "") -> Iterator[str]:
    pad = max((len(row["section"]) for row in rows), default=0) + 4
    for row in rows:
        label, count = f"[{row['section']}]", row["keys"]
        yield from hanging(row["help"] or "-", f"{indent}{label:{pad}}{count:>2} key{'s' if count != 1 else ' '}  ")


def _valued(value: Any) -> str:
    return "unset" if value is None else format_value(value)


def _fact(label: str, text: str) -> str:
    return "\n".join(_wrapped(text, f"  {label:{LABEL}}", " " * (LABEL + 2)))


def _wrapped(text: str, first: str = "", later: str | None = None) -> list[str]:
    return hanging(text, first, first if later is None else later)
