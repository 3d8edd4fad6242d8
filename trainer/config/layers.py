"""File, environment, overrides and `--set` laid over one another (CONFIG section 1, "precedence")."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from typing import Any

from trainer.config.errors import Problem, shown
from trainer.config.migrate import Entry
from trainer.config.sources import Given, deep_merge
from trainer.config.toml_values import format_key

PLACEMENTS = ("compute.topology.reference_placement", "topology.reference_placement", "reference.placement")
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
                if below.value != entry.value:
                    beaten.setdefault(entry.key, []).append((entry, entry.value, below, below.value))
                continue
            for path, old, new in _differences(below.value, entry.value):
                key = ".".join([entry.key, *map(format_key, path)])
                beaten.setdefault(key, []).append((below, old, entry, new))
            merged[entry.key] = replace(entry, value=deep_merge(below.value, entry.value))
    notes = [_beaten(key, fights) for key, fights in beaten.items()]
    return {key: entry for key, entry in merged.items() if entry.value is not None}, notes


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
    elif low != high:
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
