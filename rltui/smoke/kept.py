"""The last report on each config, where the launch checks look for it."""

from __future__ import annotations

import contextlib
import json
import os
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from rltui.places import state_folder, write_private

MAX_BYTES = 64 << 20


def kept_file(config_hash: str, env: Mapping[str, str] = os.environ) -> Path:
    """`smoke/CONFIG_HASH.json` in the state folder; whether it exists or not."""
    return state_folder(env) / "smoke" / f"{config_hash}.json"


def read_kept(config_hash: str, env: Mapping[str, str] = os.environ) -> dict[str, Any] | None:
    """The report on the config of this hash; None: there is none that can be read."""
    with contextlib.suppress(OSError, ValueError, RecursionError):
        with kept_file(config_hash, env).open("rb") as file:
            found = json.loads(file.read(MAX_BYTES))
        return found if isinstance(found, dict) else None
    return None


def write_report(path: Path, report: Mapping[str, Any]) -> None:
    """In one step, for its owner alone: episodes quote tasks. OSError."""
    text = json.dumps(report, ensure_ascii=False, indent=1) + "\n"
    write_private(path, text.encode("utf-8", "replace"))
