"""A config that came as JSON, as the TOML file that its run keeps (WIRE 5.1)."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from trainer.config.layers import without_injected
from trainer.config.sources import LOADER_KEYS, from_json
from trainer.config.toml_values import format_key, format_value, join_key, split_key

HEAD = "# Made from config.json, the config of the job as it came."


def to_toml(config: Mapping[str, Any]) -> str:
    """The same config for the loader: without what the SDK's builder injects, and without the file of variables, which
    belongs to another machine. Tables that are there and empty stay, since a section may act by being there. It has
    no nulls, which TOML cannot say: see `without_nulls`.
    """
    sections: dict[str, list[str]] = {name: [] for name, value in config.items() if isinstance(value, Mapping)}
    bare: list[str] = []
    for item in without_injected(from_json(config, "config")):
        if item.key in LOADER_KEYS:
            continue
        section, *rest = split_key(item.key)
        if not rest and section in sections:
            continue  # empty, and nobody's: its header says it
        lines = sections[section] if rest else bare
        lines.append(f"{join_key(rest or [section])} = {format_value(item.value)}")
    blocks = ["\n".join([f"[{format_key(name)}]", *lines]) for name, lines in sections.items()]
    return "\n\n".join(filter(None, [HEAD, "\n".join(bare), *blocks])) + "\n"


def without_nulls(value: Any) -> Any:
    """A null in JSON is a key that was not given."""
    if isinstance(value, Mapping):
        return {name: without_nulls(item) for name, item in value.items() if item is not None}
    if isinstance(value, list):
        return [without_nulls(item) for item in value if item is not None]
    return value
