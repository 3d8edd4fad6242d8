"""Answers that were paid for already, by what was asked. The run's own judge.jsonl is the store (WIRE 5.7)."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterable, MutableMapping
from typing import Any

Json = dict[str, Any]


MOST_KNOWN = 20_000  # the newest answers that are held: about 40 MB at most


def request_key(url: str, body: Json) -> str:
    """sha256 of a whole request: whom it goes to, model, rubric, prompt, transcript. No API key is part of it."""
    text = json.dumps([url, body], sort_keys=True, ensure_ascii=False, default=str)
    return hashlib.sha256(text.encode("utf-8", "replace")).hexdigest()


def known_replies(lines: Iterable[Json]) -> dict[str, str]:
    """The good answers of judge.jsonl by key, the newest. Lines of a wrong shape are passed over."""
    known: dict[str, str] = {}
    for line in lines:
        key, reply = line.get("key"), line.get("reply")
        if line.get("status") == "ok" and isinstance(key, str) and isinstance(reply, str):
            remember(known, key, reply)
    return known


def remember(known: MutableMapping[str, str], key: str, reply: str) -> None:
    """Adds an answer; the oldest one gives way."""
    known[key] = reply
    if len(known) > MOST_KNOWN:
        del known[next(iter(known))]
