"""What was said in many episodes at once, and the tokenizer that a run's tokens are spelt by."""

from __future__ import annotations

import os
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import msgspec

from rltui.sources.base import Json
from trainer.rundir.jsonl import decode_object
from trainer.rundir.layout import RunPaths, text_segment

MAX_TOKENIZER_BYTES = 64 << 20


class _Message(msgspec.Struct):
    text: Any = None
    reasoning: Any = None
    tool_calls: Any = None


class _Turn(msgspec.Struct):
    messages: list[_Message] = []


class _Line(msgspec.Struct):
    turns: list[_Turn] = []


_decode = msgspec.json.Decoder(_Line).decode


def texts(paths: RunPaths, rows: Sequence[Json]) -> list[tuple[int, str]]:
    """(n, a message a line) of index rows with their `text`; "" where it cannot be read. One read a segment."""
    places: dict[int, list[tuple[int, int, int]]] = {}
    found: dict[int, str] = {}
    for row in rows:
        ref = row.get("text")
        found[row["n"]] = ""
        if isinstance(ref, list) and len(ref) == 3 and all(type(part) is int and part >= 0 for part in ref):
            places.setdefault(ref[0], []).append((ref[1], ref[2], row["n"]))
    for segment, parts in places.items():
        first, last = min(parts)[0], max(start + count for start, count, _ in parts)
        try:
            data = paths.read(text_segment(segment), first, last - first)
        except FileNotFoundError:
            continue
        for start, count, n in parts:
            found[n] = _said(data[start - first : start - first + count])
    return list(found.items())


def _said(line: bytes) -> str:
    try:
        turns = _decode(line).turns
    except (msgspec.MsgspecError, UnicodeDecodeError):
        return ""
    return "\n".join(
        part if isinstance(part, str) else msgspec.json.encode(part).decode()
        for turn in turns
        for message in turn.messages
        for part in (message.reasoning, message.text, message.tool_calls)
        if part
    )


def tokenizer(checkpoints: Sequence[Path], model: Json) -> Json | None:
    """tokenizer.json of a checkpoint, else of the model where the caches of this machine have it."""
    for folder in [*checkpoints, *_cached(model)]:
        path = folder / "tokenizer.json"
        try:
            if path.stat().st_size <= MAX_TOKENIZER_BYTES:
                return decode_object(path.read_bytes())
        except (OSError, ValueError):
            continue
    return None


def _cached(model: Json) -> list[Path]:
    name, revision = model.get("name"), model.get("revision")
    if not isinstance(name, str) or ".." in name:
        return []
    if name.startswith("builtin:"):
        base = os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache"
        return sorted(Path(base, "rltui", "models").glob(f"{name.removeprefix('builtin:')}-*"))
    if Path(name).is_absolute():
        return [Path(name)]
    home = os.environ.get("HF_HOME") or Path.home() / ".cache/huggingface"
    home = os.environ.get("HF_HUB_CACHE") or Path(home, "hub")
    snapshots = Path(home, f"models--{name.replace('/', '--')}", "snapshots")
    return [snapshots / revision] if isinstance(revision, str) and revision else sorted(snapshots.glob("*"))
