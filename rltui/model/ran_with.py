"""The values that a run runs with: what its config resolved to, and what a person has set since then."""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from rltui.sources.base import RunSource

Json = dict[str, Any]
LIVE = "live"  # the origin of what was set while the run was going


def ran_with(values: Any, events: Iterable[Json], attempt: Any) -> Json:
    """The tree of `values` of resolved.json, with the live changes of this attempt: a later one resolves them."""
    tree: Json = dict(values) if isinstance(values, dict) else {}
    for event in events:
        data = event.get("data")
        new = data.get("new") if isinstance(data, dict) and data.get("action") == "set" else None
        if event.get("type") != "rl.control.done" or event.get("attempt") != attempt or not isinstance(new, dict):
            continue
        step = event.get("step")
        at = f"set live, from step {step + 1} on" if isinstance(step, int) else "set live"
        for key, value in new.items():
            _put(tree, str(key).split("."), {"value": value, "origin": LIVE, "at": at})
    return tree


def run_values(source: RunSource) -> Json | None:
    """Those of a run; None: it has not resolved its config. Unreadable."""
    resolved = source.document("resolved.json")
    if resolved is None:
        return None
    events: list[Json] = []
    part = source.events()
    events += part.rows
    while part.more:
        part = source.events(part.cursor)
        events += part.rows
    return {**resolved, "values": ran_with(resolved.get("values"), events, (source.status() or {}).get("attempt"))}


def _put(tree: Json, names: list[str], leaf: Json) -> None:
    """In place of a leaf that is there. Sections on the way are copied: the tree is somebody else's."""
    name, *rest = names
    here = tree.get(name)
    if not isinstance(here, dict):
        return
    if rest and "origin" not in here:
        tree[name] = here = dict(here)
        _put(here, rest, leaf)
    elif not rest and "origin" in here:
        tree[name] = leaf
