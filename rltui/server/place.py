"""Where a server of this user is to be found: `server-PORT.json` among the user's state, and no secret in it."""

from __future__ import annotations

import json
import os
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import msgspec

from rltui.places import state_folder, write_private
from trainer.rundir.jsonl import Json
from trainer.rundir.process import ProcessId


def place_file(port: int, env: Mapping[str, str] = os.environ) -> Path:
    return state_folder(env) / f"server-{port}.json"


def log_file(port: int, env: Mapping[str, str] = os.environ) -> Path:
    return state_folder(env) / f"server-{port}.log"


def token_file(env: Mapping[str, str] = os.environ) -> Path:
    return state_folder(env) / "server-token.json"


def tell(port: int, **facts: Any) -> Json:
    """Writes {url, pid, start_time, boot_id, host, ...} of this very process."""
    document = {**msgspec.to_builtins(ProcessId.current()), **facts}
    write_private(place_file(port), json.dumps(document, indent=1).encode())
    return document


def forget(port: int) -> None:
    """Removes what this process wrote there."""
    found = _read(port)
    if found is not None and found.get("pid") == os.getpid():
        place_file(port).unlink(missing_ok=True)


def living(port: int) -> Json | None:
    """What a server of this user at that port wrote, if its process is there."""
    found = _read(port)
    try:
        process = msgspec.convert(found, ProcessId)
    except msgspec.ValidationError:
        return None
    return found if process.alive() else None


def _read(port: int) -> Json | None:
    path = place_file(port)
    try:
        if path.stat().st_uid != os.getuid():
            return None
        found = json.loads(path.read_bytes())
    except (OSError, ValueError, RecursionError):
        return None
    return found if isinstance(found, dict) else None
