"""Resolved values one by one, from a config that was loaded or from a run's `resolved.json`."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import asdict, dataclass
from typing import Any

from rltui.cli.output import Json
from rltui.model.ran_with import LIVE
from trainer.config.keys import all_keys
from trainer.config.toml_values import format_key, split_key

GIVEN = ("file", "env", "override", "set", "migrated", LIVE)  # origins of what somebody wrote


@dataclass(frozen=True, slots=True)
class Leaf:
    """One key's value and where it comes from; the fields are those of WIRE 5.3."""

    key: str
    value: Any
    origin: str
    at: str | None = None
    was: str | None = None
    note: str | None = None

    @property
    def given(self) -> bool:
        return self.origin in GIVEN or self.at is not None  # a derived value in place of one that was given

    def as_dict(self) -> Json:
        return asdict(self)


def leaves(values: Mapping[str, Any]) -> dict[str, Leaf]:
    """The `values` of a resolved config, by key, in their order. A table of leaves has no origin of its own."""
    return {leaf.key: leaf for leaf in _walk(values, "")}


def _walk(node: Mapping[str, Any], prefix: str) -> Iterator[Leaf]:
    for name, item in node.items():
        key = f"{prefix}{format_key(str(name))}"
        if not isinstance(item, Mapping):
            continue  # no leaf of ours: a later schema's
        if isinstance(item.get("origin"), str):
            yield Leaf(key, item.get("value"), item["origin"], item.get("at"), item.get("was"), item.get("note"))
        else:
            yield from _walk(item, f"{key}.")


def found_at(values: Mapping[str, Leaf], key: str) -> Leaf | None:
    """The leaf of `key`; for a key inside a free table, that part of its value. None: there is none."""
    if key in values:
        return values[key]
    parts = split_key(key)
    for count in range(len(parts) - 1, 0, -1):
        leaf = values.get(".".join(map(format_key, parts[:count])))
        if leaf is None:
            continue
        value = leaf.value
        for part in parts[count:]:
            if not isinstance(value, Mapping) or part not in value:
                return None
            value = value[part]
        return Leaf(key, value, leaf.origin, leaf.at, leaf.was, leaf.note)
    return None


def section_of(key: str) -> str:
    """The table that `key` stands in; of a key that is not ours, all but its last part."""
    known = all_keys().get(key)
    return known.section if known else ".".join(map(format_key, split_key(key)[:-1]))


def name_in(key: str) -> str:
    """The last part of `key`, as TOML spells it."""
    return format_key(split_key(key)[-1])


def origin_text(leaf: Leaf | Json) -> str:
    """Where a value comes from, in words (CONFIG section 1, "provenance")."""
    data = leaf.as_dict() if isinstance(leaf, Leaf) else leaf
    at, was, note = data.get("at"), data.get("was"), data.get("note")
    match data["origin"]:
        case "file" | "set" | "live":
            text = at or data["origin"]
        case "env" | "override":
            text = f"{data['origin']} {at}"
        case "migrated":
            text = f"{at}, migrated from {was}"
        case "derived" if at:  # in place of a value that was given, which comes first
            return f"{note}; derived: {was}"
        case "derived":
            text = f"derived: {was}"
        case other:
            text = other
    return f"{text} ({note})" if note else text
