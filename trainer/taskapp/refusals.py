"""How a task app says no, and what to leave out of the request for it (WIRE 1.2, 1.4). Pure functions."""

from __future__ import annotations

import copy
from collections.abc import Sequence
from typing import Any

from trainer.taskapp.codes import clean
from trainer.taskapp.reading import Json, listing, mapping


def is_unauthorised(body: object) -> bool:
    """The 400 of older apps: `{detail: {error: {code: "unauthorised"}}}`, or its parts."""
    detail = mapping(mapping(body).get("detail"))
    holders = (mapping(detail.get("error")), detail, mapping(mapping(body).get("error")))
    return any(holder.get("code") in ("unauthorised", "unauthorized") for holder in holders)


def field_errors(body: object) -> str:
    """The field paths of a 422, or what the app says instead."""
    detail = mapping(body).get("detail")
    errors = [
        f"{'.'.join(str(part) for part in listing(item.get('loc')))}: {item.get('msg', '?')}"
        for item in map(mapping, listing(detail))
    ]
    message = mapping(mapping(detail).get("error")).get("message") or (detail if isinstance(detail, str) else None)
    return clean("; ".join(errors[:5]) or str(message or "no reason given"), 500)


def cause_of(body: object) -> str | None:
    """What `{detail: {error: {message}}}` says, which is how our server tells why it failed."""
    message = mapping(mapping(mapping(body).get("detail")).get("error")).get("message")
    return clean(message) if isinstance(message, str) and message else None


def extra_fields(body: object, request: Json) -> list[tuple[str, ...]]:
    """The paths in `request` that a 422 forbids, if extra fields are all that it complains of, else []."""
    errors = [mapping(item) for item in listing(mapping(body).get("detail"))]
    paths = []
    for error in errors:
        kind, message = str(error.get("type")), str(error.get("msg")).lower()
        if not (kind in ("extra_forbidden", "value_error.extra") or ("extra" in message and "permitted" in message)):
            return []
        loc = [str(part) for part in listing(error.get("loc"))]
        path = tuple(loc[1:] if loc[:1] == ["body"] else loc)
        if not path or not _has(request, path):
            return []
        paths.append(path)
    return paths


def _has(body: Json, path: Sequence[str]) -> bool:
    node: Any = body
    for name in path:
        if not isinstance(node, dict) or name not in node:
            return False
        node = node[name]
    return True


def without(body: Json, paths: Sequence[Sequence[str]]) -> Json:
    """A copy of `body` that lacks the fields at `paths`; the same object if there are none."""
    if not paths:
        return body
    result = copy.deepcopy(body)
    for path in paths:
        if _has(result, path):
            node = result
            for name in path[:-1]:
                node = node[name]
            del node[path[-1]]
    return result
