"""File, environment, overrides and `--set` laid over one another (CONFIG section 1, "precedence")."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from typing import Any

from trainer.config.errors import Problem, shown
from trainer.config.migrate import Entry
from trainer.config.sources import Given, deep_merge
from trainer.config.toml_values import format_key, same

PLACEMENTS = ("compute.topology.reference_placement", "topology.reference_placement", "reference.placement")
START_WEIGHTS = {"policy.model_name", "policy.source"}  # a run has one of them
MOST_TOLD = 8  # parts of a table whose origin is named
INJECTED = {"compute.topology": PLACEMENTS[0], "reference": PLACEMENTS[2]}


def merge(layers: Sequence[Sequence[Entry]]) -> tuple[dict[str, Entry], list[Problem]]:
    """Entries by key, of layers from weak to strong, and one note for each value that is beaten.

    None unsets a key. Tables merge: what is beaten is then one of their keys.
    """
    merged: dict[str, Entry] = {}
    beaten: dict[str, list[tuple[Entry, Any, Entry, Any]]] = {}
    for layer in layers:
        for entry in layer:
            below = merged.get(entry.key)
            if below is None or below.weak:
                merged[entry.key] = entry
                continue
            if entry.weak:
                if not same(below.value, entry.value):
                    beaten.setdefault(entry.key, []).append((entry, entry.value, below, below.value))
                continue
            for path, old, new in _differences(below.value, entry.value):
                key = ".".join([entry.key, *map(format_key, path)])
                loser = next((part for at, part in below.parts.items() if at[: len(path)] == path), below)
                beaten.setdefault(key, []).append((loser, old, entry, new))
            beneath = below if below.value is not None else below.beneath
            merged[entry.key] = replace(_over(below, entry), beneath=beneath)
    notes = [_beaten(key, fights) for key, fights in beaten.items()]
    return {key: entry for key, entry in merged.items() if entry.value is not None}, notes


def _over(below: Entry, entry: Entry) -> Entry:
    """`entry` laid over `below`. Of a table each part keeps its own origin, and the table's note names those below."""
    if not (isinstance(below.value, Mapping) and isinstance(entry.value, Mapping)):
        return entry
    value = deep_merge(below.value, entry.value)
    parts = {path: below.parts.get(path, below) for path in _paths(below.value) if _is_free(path, entry.value)}
    told = [f"{'.'.join(map(format_key, path))} from {part.origin.at}" for path, part in parts.items()]
    note = ", ".join(told[:MOST_TOLD]) + (f" and {len(told) - MOST_TOLD} more" if len(told) > MOST_TOLD else "")
    notes = [text for text in (entry.origin.note, note) if text]
    origin = replace(entry.origin, note="; ".join(notes) or None)
    return replace(entry, value=value, parts=parts, origin=origin, text=None)


def _paths(value: Any, path: tuple[str, ...] = ()) -> Iterator[tuple[str, ...]]:
    """The paths of all that is no table, and of empty tables."""
    if isinstance(value, Mapping) and value:
        for name, item in value.items():
            yield from _paths(item, (*path, str(name)))
    else:
        yield path


def _is_free(path: tuple[str, ...], table: Any) -> bool:
    """Whether a table says nothing about what stands at `path`."""
    for part in path:
        if not isinstance(table, Mapping):
            return False
        if part not in table:
            return True
        table = table[part]
    return False


def with_one_start(layer: list[Entry]) -> list[Entry]:
    """The start weights that a layer gives take the place of the other kind in weaker ones."""
    chosen = [entry for entry in layer if entry.key in START_WEIGHTS]
    if len(chosen) != 1:
        return layer
    (other,) = START_WEIGHTS - {chosen[0].key}
    return [*layer, replace(chosen[0], key=other, value=None)]


def without_injected(given: Sequence[Given]) -> list[Given]:
    """A job body without the placement "none" that the SDK's builder puts in beside another that was meant."""
    injected = []
    for section, key in INJECTED.items():
        inside = [item for item in given if item.key.startswith(f"{section}.")]
        if [(item.key, item.value) for item in inside] == [(key, "none")]:
            injected += inside
    said = [item for item in given if item.key in PLACEMENTS and item not in injected]
    if not any(item.value != "none" for item in said):
        return list(given)
    return [item for item in given if item not in injected]


def _differences(low: Any, high: Any, path: tuple[str, ...] = ()) -> Iterator[tuple[tuple[str, ...], Any, Any]]:
    if isinstance(low, Mapping) and isinstance(high, Mapping):
        for name in low.keys() & high.keys():
            yield from _differences(low[name], high[name], (*path, str(name)))
    elif not same(low, high):
        yield path, low, high


def _beaten(key: str, fights: list[tuple[Entry, Any, Entry, Any]]) -> Problem:
    """All losers for one key in one note, at the place of the weakest."""
    *_, (_, _, winner, final) = fights
    first, value, _, _ = fights[0]
    now = "unset" if final is None else shown(final)
    why = f"beaten by {winner.place}: {now}"
    if others := [f"{shown(old)} from {loser.place}" for loser, old, _, _ in fights[1:]]:
        why += f"; so is {', '.join(others)}"
    return Problem(first.place, key, why, shown(value), level="note", code="beaten")
