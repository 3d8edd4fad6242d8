"""The resolved values of several runs, key by key. Pure."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

from trainer.config.toml_values import format_key, format_value, same

if TYPE_CHECKING:
    from rltui.cli.config.values import Leaf


@dataclass(frozen=True)
class Value:
    """One value of a key, and the runs that have it. `leaf` is the first one's; None: the key is not there."""

    runs: tuple[int, ...]
    leaf: Leaf | None

    @property
    def text(self) -> str:
        """As TOML spells it."""
        if self.leaf is None:
            return "not there"
        return "unset" if self.leaf.value is None else format_value(self.leaf.value)


@dataclass(frozen=True)
class Key:
    """One key with its distinct values, in the order of the runs."""

    name: str
    values: tuple[Value, ...]

    @property
    def differs(self) -> bool:
        return len(self.values) > 1

    def json(self) -> dict[str, Any]:
        """For --json."""
        return {
            "key": self.name,
            "values": [
                {"runs": list(value.runs), "there": value.leaf is not None}
                | ({} if value.leaf is None else value.leaf.as_dict())
                for value in self.values
            ],
        }


def keys(configs: Sequence[Mapping[str, Leaf] | None]) -> list[Key]:
    """Every key of the configs in their own order; a run whose config is not known (None) has no part in it."""
    flat = {run: dict(_flat(values)) for run, values in enumerate(configs) if values is not None}
    names = dict.fromkeys(name for values in flat.values() for name in values)
    return [Key(name, _distinct({run: values.get(name) for run, values in flat.items()})) for name in names]


def _distinct(by_run: Mapping[int, Leaf | None]) -> tuple[Value, ...]:
    found: list[Value] = []
    for run, leaf in by_run.items():
        for i, known in enumerate(found):
            if _equal(known.leaf, leaf):
                found[i] = replace(known, runs=(*known.runs, run))
                break
        else:
            found.append(Value((run,), leaf))
    return tuple(found)


def _equal(a: Leaf | None, b: Leaf | None) -> bool:
    return a is b if a is None or b is None else same(a.value, b.value)


def _flat(values: Mapping[str, Leaf]) -> Iterator[tuple[str, Leaf]]:
    for leaf in values.values():
        yield from _inside(leaf)


def _inside(leaf: Leaf) -> Iterator[tuple[str, Leaf]]:
    """A free table is compared key by key."""
    if not isinstance(leaf.value, dict):
        yield leaf.key, leaf
        return
    for name, item in leaf.value.items():
        yield from _inside(replace(leaf, key=f"{leaf.key}.{format_key(str(name))}", value=item))
