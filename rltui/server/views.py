"""Smaller reads of a job: its config, its judge calls, its checkpoints (WIRE 3.2)."""

from __future__ import annotations

from typing import Any

from starlette.requests import Request
from starlette.responses import Response

from rltui.server import params
from rltui.server.reading import OpenRun, answered
from rltui.sources.base import Json, Unreadable
from trainer.rundir.lines import Cursor, read_lines

VIEWS = ("original", "resolved", "origin", "environment")
JUDGE_BYTES = 4 << 20  # of judge calls at a time


async def config(request: Request, run: OpenRun) -> Response:
    """`original` the TOML text, `resolved` the values alone, `origin` each with where it came from."""
    view = params.choice(request, "view", VIEWS) or "original"

    def read() -> Json:
        if view == "original":
            return {"view": view, "config": _text(run)}
        document = run.source.document("environment.json" if view == "environment" else "resolved.json")
        if view == "resolved" and document is not None:
            document = {**document, "values": _values(document.get("values"))}
        return {"view": view, "config": document}

    return await answered(request, run, read)


def _text(run: OpenRun) -> str | None:
    try:
        return run.reader.paths.read("config.toml").decode("utf-8", "replace")
    except FileNotFoundError:
        return None
    except OSError as error:
        raise Unreadable(f"config.toml cannot be read: {error.strerror or error}") from error


def _values(tree: Any) -> Any:
    if not isinstance(tree, dict):
        return tree
    if "value" in tree and isinstance(tree.get("origin"), str):
        return tree["value"]
    return {name: _values(item) for name, item in tree.items()}


async def judge(request: Request, run: OpenRun) -> Response:
    """`next` is the byte to go on from, also where nothing came."""
    after, limit = params.count(request, "after") or 0, params.limit(request, 200, 5_000)

    def read() -> Json:
        paths = run.reader.paths
        try:
            inode = paths.judge.lstat().st_ino
            part = read_lines(paths, "judge.jsonl", Cursor(inode, after), limit, max_bytes=JUDGE_BYTES)
        except FileNotFoundError:
            return {"calls": [], "next": 0}
        except OSError as error:
            raise Unreadable(f"judge.jsonl cannot be read: {error.strerror or error}") from error
        return {"calls": part.rows, "next": part.cursor.offset}

    return await answered(request, run, read)


async def checkpoints(request: Request, run: OpenRun) -> Response:
    def read() -> Json:
        found = run.source.checkpoints()
        return {"checkpoints": found, "data": found}

    return await answered(request, run, read)
