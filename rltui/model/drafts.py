"""Unsaved edits on the disk, in `$XDG_STATE_HOME/rltui/drafts`: a crash or a dropped line costs two seconds of them.

A file for each config, readable by its owner only. What looks like a secret is never written, so such a draft is not
kept. It is comfort: a damaged draft counts as none, and no fault of it reaches the person.
"""

from __future__ import annotations

import contextlib
import hashlib
import json
from dataclasses import dataclass
from pathlib import Path

from rltui.cli.config.spellings import Document
from rltui.cli.output import CliError
from rltui.places import state_folder, write_private
from trainer.config import ConfigError
from trainer.config.secrets import may_hold_secret

SCHEMA = 1
MAX_BYTES = 32 << 20


@dataclass(frozen=True, slots=True)
class Draft:
    """
    Attributes:
        path: of the config, absolute; "" for one without a file, which has `name`.
        disk: what stood in the file when the edits began; None: there was no file.
        base: what a new config began with.
        saved: epoch seconds.
    """

    path: str
    name: str
    text: str
    disk: str | None
    base: str
    saved: float


def folder() -> Path:
    return state_folder() / "drafts"


def _file(path: str, name: str) -> Path:
    return folder() / f"{hashlib.sha256((path or f'new {name}').encode()).hexdigest()[:24]}.json"


def keep(draft: Draft) -> bool:
    """Write it. False: it holds what looks like a secret, or cannot be written."""
    if holds_secret(draft.text):
        return False
    place = _file(draft.path, draft.name)
    data = {"schema": SCHEMA, **{name: getattr(draft, name) for name in Draft.__slots__}}
    try:
        write_private(place, json.dumps(data).encode())
    except OSError:
        return False
    return True


def drop(path: str, name: str) -> None:
    """Its edits are saved, or not wanted."""
    with contextlib.suppress(OSError):
        _file(path, name).unlink()


def of(path: str, name: str = "") -> Draft | None:
    """The draft of a config, if there is one."""
    return _read(_file(path, name))


def all_drafts() -> list[Draft]:
    """Newest first."""
    try:
        found = [_read(file) for file in folder().glob("*.json")]
    except OSError:
        return []
    return sorted((draft for draft in found if draft is not None), key=lambda draft: -draft.saved)


def _read(file: Path) -> Draft | None:
    try:
        with file.open("rb") as stream:
            raw = stream.read(MAX_BYTES + 1)
        data = json.loads(raw) if len(raw) <= MAX_BYTES else None
    except (OSError, ValueError, RecursionError):
        return None
    if not isinstance(data, dict) or data.get("schema") != SCHEMA:
        return None
    texts = [data.get(name) for name in ("path", "name", "text", "base")]
    disk, saved = data.get("disk"), data.get("saved")
    fits = all(isinstance(text, str) for text in texts) and isinstance(disk, str | None)
    if not fits or isinstance(saved, bool) or not isinstance(saved, int | float):
        return None
    path, name, text, base = map(str, texts)
    return Draft(path, name, text, disk, base, float(saved))


def holds_secret(text: str) -> bool:
    try:
        Document(text, "draft").refuse_secrets()
    except CliError:
        return True
    except ConfigError:  # no TOML: whatever may be one counts
        return may_hold_secret(text)
    return False
