"""Which runs a person has pinned, so that they come first in the list, or archived, so that they stay out of it.

Kept in `$XDG_STATE_HOME/rltui/shelf.json` by job id (of a run without one: its path). Nothing of the run changes. A
file that cannot be read counts as empty and stays as it is: a person chose what is in it.
"""

from __future__ import annotations

import json
import os
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING

from rltui.places import state_folder, write_private
from rltui.words import shortened

if TYPE_CHECKING:
    from rltui.sources.folder import RunRow

SCHEMA = 1
MAX_BYTES = 4 << 20
PINNED, ARCHIVED = "pinned", "archived"
_TRIES, _PAUSE_S = 20, 0.05  # for the lock; it is held for a read and a write


class ShelfFault(Exception):
    """A sentence: what is wrong with the file, and what to do."""


def shelf_file() -> Path:
    return state_folder() / "shelf.json"


def key_of(row: RunRow) -> str:
    return row.job_id or row.path


class Shelf:
    """`pinned` and `archived` hold keys. Each change is made to the file as it stands, under a lock, so several
    interfaces may. `fault`: why the file could not be read, "" if it was, or is none yet."""

    def __init__(self, file: Path) -> None:
        self._file = file
        self.fault = ""
        self.pinned: set[str] = set()
        self.archived: set[str] = set()
        try:
            self.pinned, self.archived = _read(file)
        except ShelfFault as fault:
            self.fault = str(fault)

    def toggle(self, kind: str, key: str) -> bool:
        """Put a run on the shelf, or take it off. True: it is on it now. ShelfFault: the file is as it was."""
        try:
            with _locked(self._file):
                self.pinned, self.archived = _read(self._file)
                kept = self.pinned if kind == PINNED else self.archived
                kept ^= {key}
                document = {"schema": SCHEMA, PINNED: sorted(self.pinned), ARCHIVED: sorted(self.archived)}
                write_private(self._file, json.dumps(document, indent=1).encode())
        except OSError as error:
            raise ShelfFault(f"it cannot be remembered: {error.filename or self._file}: {error.strerror}") from error
        return key in kept


@contextmanager
def _locked(file: Path) -> Iterator[None]:
    from trainer.rundir.lock import try_flock

    file.parent.mkdir(parents=True, exist_ok=True, mode=0o700)
    fd = os.open(file.with_suffix(".lock"), os.O_RDWR | os.O_CREAT, 0o600)
    try:
        for _ in range(_TRIES):
            if try_flock(fd):
                break
            time.sleep(_PAUSE_S)
        else:
            raise ShelfFault(f"it is not remembered: another interface holds {shortened(file)}; try again")
        yield
    finally:
        os.close(fd)


def _read(file: Path) -> tuple[set[str], set[str]]:
    """(pinned, archived); both empty where there is no file. ShelfFault: it is not as we write it."""
    try:
        with file.open("rb") as stream:
            raw = stream.read(MAX_BYTES + 1)
        if len(raw) > MAX_BYTES:
            raise ValueError("it is too long")
        document = json.loads(raw)
        if not isinstance(document, dict) or document.get("schema") != SCHEMA:
            raise ValueError(f"it is not of schema {SCHEMA}")
        lists = document.get(PINNED), document.get(ARCHIVED)
        if not all(isinstance(found, list) and all(isinstance(key, str) for key in found) for found in lists):
            raise ValueError("its lists are no lists of names")
    except FileNotFoundError:
        return set(), set()
    except (OSError, ValueError, RecursionError) as error:
        why = error.strerror if isinstance(error, OSError) else error
        raise ShelfFault(f"pins and archive cannot be read ({why}): repair or remove {shortened(file)}") from error
    return set(lists[0]), set(lists[1])
