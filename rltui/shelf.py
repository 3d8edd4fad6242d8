"""Which runs a person has pinned, so that they come first in the list, or archived, so that they stay out of it.

Kept in `$XDG_STATE_HOME/rltui/shelf.json` by job id (of a run without one: its path). Nothing of the run changes. A
damaged file counts as empty.
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import TYPE_CHECKING

from rltui.places import state_folder, write_private

if TYPE_CHECKING:
    from rltui.sources.folder import RunRow

SCHEMA = 1
MAX_BYTES = 4 << 20
PINNED, ARCHIVED = "pinned", "archived"


def shelf_file() -> Path:
    return state_folder() / "shelf.json"


def key_of(row: RunRow) -> str:
    return row.job_id or row.path


class Shelf:
    """`pinned` and `archived` hold keys. Each change is made to the file as it stands, so several interfaces may."""

    def __init__(self, file: Path) -> None:
        self._file = file
        self.pinned, self.archived = _read(file)

    def toggle(self, kind: str, key: str) -> bool:
        """Put a run on the shelf, or take it off. True: it is on it now. OSError: the file cannot be written."""
        self.pinned, self.archived = _read(self._file)
        kept = self.pinned if kind == PINNED else self.archived
        kept ^= {key}
        document = {"schema": SCHEMA, PINNED: sorted(self.pinned), ARCHIVED: sorted(self.archived)}
        write_private(self._file, json.dumps(document, indent=1).encode())
        return key in kept


def _read(file: Path) -> tuple[set[str], set[str]]:
    try:
        with file.open("rb") as stream:
            raw = stream.read(MAX_BYTES + 1)
        document = json.loads(raw) if len(raw) <= MAX_BYTES else None
    except (OSError, ValueError, RecursionError):
        return set(), set()
    if not isinstance(document, dict) or document.get("schema") != SCHEMA:
        return set(), set()
    lists = [found if isinstance(found, list) else [] for found in (document.get(PINNED), document.get(ARCHIVED))]
    pinned, archived = ({item for item in found if isinstance(item, str)} for found in lists)
    return pinned, archived
