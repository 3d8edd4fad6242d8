"""What `rltui explain` knows about a name, as data."""

from __future__ import annotations

import re

from rltui.cli.config.values import Leaf
from rltui.cli.keynames import Name, moved_in, namesakes, old_spellings, spoken_of, without_effect_in
from rltui.cli.output import Json
from trainer.config.derive import DERIVATIONS
from trainer.config.keys import OPEN_SECTIONS, Key, all_keys, all_sections, section_models
from trainer.config.migrate import move_of, no_effect
from trainer.config.migrations import NO_EFFECT, VALUE_SPELLINGS

LOADER_HELP = "for the loader, no value of the run: that file's variables are loaded first, those already set win"


def described(name: Name, here: dict[str, Leaf]) -> Json:
    """`name` in data; `here`: what a config makes of it, by key."""
    others = [] if "." in name.path else [other.path for other in namesakes(name.path)]
    return _described(name, here) | ({"also": others} if others else {})


def _described(name: Name, here: dict[str, Leaf]) -> Json:
    match name.kind:
        case "key":
            return _key(all_keys()[name.path], here)
        case "inner":
            about = {"kind": "inner", "key": name.path, "table": name.now, "help": _inner_help(name.now)}
            return about | _values(here)
        case "section":
            return _section(name.path, here)
        case "loader":
            return {"kind": "loader", "key": name.path, "help": LOADER_HELP}
        case "no_effect":
            return {"kind": "no_effect", "key": name.path, "why": no_effect(name.path)}
        case "old":
            move = move_of(name.path)
            assert move is not None
            known = all_keys().get(move.new)
            new = _key(known, here) if known else {"kind": "inner", "key": move.new, "help": ""}
            return {"kind": "old", "key": name.path, "now": move.new, "note": move.note or None, "new": new}
        case "old_section":
            return _old_section(name.path, name.now)


def _key(known: Key, here: dict[str, Leaf]) -> Json:
    formulas = [item.formula for item in DERIVATIONS if item.key == known.path]
    return {
        "kind": "key",
        "key": known.path,
        "help": known.help,
        "allowed": known.allowed,
        "unit": known.unit,
        "required": known.required,
        "default": known.default,
        "derived": known.derived or (formulas[0] if formulas else None),
        "example": known.meta.get("example"),
        "live": known.live,
        "resume": known.resume,
        "from": known.origin,
        "why": known.meta.get("why"),
        "checks": known.meta.get("checks"),
        "matters_when": {key: list(values) for key, values in known.visible_when.items()},
        "old_keys": old_spellings(known.path),
        "old_values": {old: dict(now) for old, now in VALUE_SPELLINGS.get(known.path, {}).items()},
        **_values(here),
    }


def found(word: str) -> Json:
    """The keys that speak of a word."""
    rows = [_key_row(all_keys()[path], {}) for path in spoken_of(word)]
    return {"kind": "found", "word": word, "keys": rows}


def _values(here: dict[str, Leaf]) -> Json:
    return {"here": [leaf.as_dict() for leaf in here.values()]} if here else {}


def _section(section: str, here: dict[str, Leaf]) -> Json:
    return {
        **section_row(section),
        "kind": "section",
        "keys": [_key_row(known, here) for known in all_keys().values() if known.section == section],
        "sections": [section_row(other) for other in all_sections() if other.rpartition(".")[0] == section],
        "moved": dict(moved_in(section)),
        "no_effect": {key: NO_EFFECT[key] for key in without_effect_in(section)},
    }


def _old_section(section: str, now: str) -> Json:
    return {
        "kind": "old_section",
        "section": section,
        "now": now if now != section else None,
        "moved": dict(moved_in(section)),
        "no_effect": {key: NO_EFFECT[key] for key in without_effect_in(section)},
    }


def section_row(section: str) -> Json:
    """A section in a list of sections."""
    count = sum(known.section == section for known in all_keys().values())
    return {"section": section, "keys": count, "help": _section_help(section)}


def _section_help(section: str) -> str:
    """The first sentence of its model's docstring."""
    if section in all_keys():
        return all_keys()[section].help
    return re.split(r"(?<=\.)\s", " ".join((section_models()[section].__doc__ or "").split()), maxsplit=1)[0]


def _key_row(known: Key, here: dict[str, Leaf]) -> Json:
    row = {
        "key": known.path,
        "help": known.summary,
        "required": known.required,
        "default": known.default,
        "derived": known.derived,
    }
    leaf = here.get(known.path)
    return row if leaf is None else {**row, "here": leaf.as_dict()}


def _inner_help(table: str) -> str:
    if table == "tags":
        return "a tag of your own: stored with the job, shown and filterable"
    if table in OPEN_SECTIONS:
        return "no key of ours: passed on to the engine"
    return f"inside the free table {table} ({all_keys()[table].summary}); its keys are not checked"
