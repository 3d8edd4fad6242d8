"""`rltui explain KEY`: what a key does, what it may be, and what it is where nothing is given."""

from __future__ import annotations

import argparse
import sys
import textwrap
from collections.abc import Iterator
from typing import Any

from rltui.cli.config.values import Leaf, leaves, origin_text
from rltui.cli.configs import add_examples, columns, open_config, printable, refusal
from rltui.cli.explained import described, section_row
from rltui.cli.keynames import Name, chosen, old_sections
from rltui.cli.output import OK, Json, add_data_options, emit, say
from rltui.text import fit
from trainer.config import ConfigError
from trainer.config.keys import all_sections
from trainer.config.toml_values import format_value

FROM = {
    "ref": "the SDK's reference",
    "sdk": "the SDK's models; not in its reference",
    "seen": "real configs; not in the SDK's reference",
    "ours": "new here",
}
LABEL = 11  # cells of the word that stands before a fact


def configure(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("key", nargs="?", metavar="KEY", help="a key, its last part, a section, or an old spelling")
    parser.add_argument("--config", metavar="FILE", help="also say what it is in this config, and why")
    add_data_options(parser)
    add_examples(
        parser,
        "rltui explain                             the sections",
        "rltui explain training.group_size",
        "rltui explain max_lag --config my.toml    its value there, and where that comes from",
        "rltui explain model.base                  an old spelling",
    )


def run(args: argparse.Namespace) -> int:
    if args.key is None:
        sections = [section_row(section) for section in all_sections()]
        data: Json = {"kind": "sections", "sections": sections, "old_sections": list(old_sections())}
    else:
        name = chosen(args.key)
        data = described(name, _here(name, args.config))
    emit(data, as_json=args.json, out=args.out)
    if not args.json:
        also = [f"also: {', '.join(data['also'])}"] if data.get("also") else []
        for line in [*_lines(data), *also]:
            say(printable(line), sys.stdout)
    return OK


def _here(name: Name, config: str | None) -> dict[str, Leaf]:
    """What a config makes of it; empty without one. CliError: the config is not valid."""
    if config is None:
        return {}
    try:
        found = leaves(open_config(config).resolved()["values"])
    except ConfigError as error:
        raise refusal(error, f"so {name.path} has no value there") from error
    below = (f"{name.now}.", f"{name.path}.")
    return {key: leaf for key, leaf in found.items() if key in (name.now, name.path) or key.startswith(below)}


def _lines(data: Json) -> list[str]:
    match data["kind"]:
        case "sections":
            return [*_sections(data["sections"]), "", f"old sections: {', '.join(data['old_sections'])}"]
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
    for item in data["not_yet"]:
        yield _fact("not yet", f"{item['why']}; instead: {item['fix']}")
    if data["checks"]:
        yield _fact("checks", data["checks"])
    if data["matters_when"]:
        yield _fact("matters", f"when {_condition(data['matters_when'])}")
    if data["live"]:
        yield _fact("live", "yes: it can be changed while a run is going, and may differ on --resume")
    elif data["resume"]:
        yield _fact("live", "no, but it may differ on --resume")
    else:
        yield _fact("live", "no: a run keeps it")
    yield _fact("from", FROM[data["from"]] + (f": {data['why']}" if data["why"] else ""))
    if data["old_keys"]:
        yield _fact("old names", ", ".join(data["old_keys"]))
    for old, now in data["old_values"].items():
        meant = ", ".join(f"{key} = {format_value(value)}" for key, value in now.items())
        yield _fact("old value", f"{format_value(old)} means {meant}")
    yield from _here_lines(data)


def _condition(keys: dict[str, list[Any]]) -> str:
    return " and ".join(f"{key} is {' or '.join(map(format_value, values))}" for key, values in keys.items())


def _default(data: Json) -> str:
    if data["default"] is not None:
        return format_value(data["default"])
    if data["derived"]:
        return f"derived: {data['derived']}"
    return "none: it must be given" if data["required"] else "unset"


def _here_lines(data: Json) -> Iterator[str]:
    for leaf in data.get("here", []):
        key = f"{leaf['key']} = " if leaf["key"] != data["key"] else ""
        yield _fact("here", f"{key}{_valued(leaf['value'])}   ({origin_text(leaf)})")


def _section(data: Json) -> Iterator[str]:
    yield f"[{data['section']}]" + (f"  {data['help']}" if data["help"] else "")
    names = [row["key"].rpartition(".")[2] for row in data["keys"]]
    pad = max(map(len, names), default=0) + 2
    for name, row in zip(names, data["keys"], strict=True):
        value = _valued(row["here"]["value"]) + "  " if "here" in row else ""
        mark = "required: " if row["required"] and not value else ""
        yield fit(f"  {name:{pad}}{value}{mark}{row['help']}", columns())
    yield from (f"  {line}" for line in _sections(data["sections"]))
    yield from _moved(data)


def _old_section(data: Json) -> Iterator[str]:
    now = f" of [{data['now']}]" if data["now"] else ""
    yield f"[{data['section']}]  is an old section{now}; what stands in it still works, with a warning"
    yield from _moved(data)


def _moved(data: Json) -> Iterator[str]:
    for old, new in data["moved"].items():
        yield f"  {old} -> {new}"
    for key, why in data["no_effect"].items():
        yield fit(f"  {key}: no effect: {why}", columns())


def _sections(rows: list[Json]) -> Iterator[str]:
    pad = max((len(row["section"]) for row in rows), default=0) + 4
    for row in rows:
        label, count = f"[{row['section']}]", row["keys"]
        yield fit(f"{label:{pad}}{count:>2} key{'s' if count != 1 else ' '}  {row['help']}".rstrip(), columns() - 2)


def _valued(value: Any) -> str:
    return "unset" if value is None else format_value(value)


def _fact(label: str, text: str) -> str:
    return "\n".join(_wrapped(text, f"  {label:{LABEL}}", " " * (LABEL + 2)))


def _wrapped(text: str, first: str = "", later: str | None = None) -> list[str]:
    return textwrap.wrap(
        text,
        min(columns(), 100),
        initial_indent=first,
        subsequent_indent=first if later is None else later,
        break_long_words=False,
        break_on_hyphens=False,
    ) or [first.rstrip()]
