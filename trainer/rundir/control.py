"""Requests to a run: a small file each, written by any viewer, taken by the coordinator (WIRE 5.8)."""

from __future__ import annotations

import getpass
import os
import re
import secrets
import stat
import time
from collections.abc import Iterable, Mapping
from typing import Any

import msgspec

from trainer.rundir.disk import replace_file, sync_folder
from trainer.rundir.jsonl import Json, decode_object, encode, from_iso, iso
from trainer.rundir.layout import SCHEMA, RunPaths, make_folder, read_range
from trainer.rundir.process import host_name

ACTIONS = frozenset({"pause", "resume", "stop", "kill", "checkpoint", "evaluate", "set"})
UNANSWERED_AFTER_S = 10.0
REFUSALS = {  # WIRE 5.8; of not_live, the keys that can be set say more
    "wrong_state": "the run is not in a state for it",
    "expired": "it was asked before this attempt began, or too long ago",
    "no_such_action": "there is no such action",
    "invalid": "it cannot be read",
}
MAX_REQUEST_BYTES = 64 << 10
_NAME = re.compile(r"(\d{13,16}-[0-9a-f]{8})\.json\Z")


class Request(msgspec.Struct, kw_only=True):
    """One request. `refusal` is set where it cannot be carried out: invalid, no_such_action or expired."""

    control_id: str
    action: str = ""
    args: Json = {}
    by: Json = {}  # {user, host, pid, client}
    created_at: str = ""
    expires_at: str | None = None
    refusal: str | None = None


def ask(
    root: str | os.PathLike[str],
    action: str,
    args: Mapping[str, Any] | None = None,
    *,
    client: str,
    by: Mapping[str, Any] | None = None,
    expires_in_s: float | None = None,
) -> str:
    """Write a request and give its control_id. The answer comes as events.

    by: of {user, host, pid, client} what is another's than this process's: of whoever asked it to ask.

    ValueError: an unknown action; FileNotFoundError: no such run folder.
    """
    if action not in ACTIONS:
        raise ValueError(f"no such action: {action}; there are {', '.join(sorted(ACTIONS))}")
    paths = RunPaths(root)
    make_folder(paths.control)
    now = time.time()
    control_id = f"{round(now * 1000)}-{secrets.token_hex(4)}"
    document = {
        "schema": SCHEMA,
        "control_id": control_id,
        "action": action,
        "args": dict(args or {}),
        "by": {"user": user_name(), "host": host_name(), "pid": os.getpid(), "client": client, **(by or {})},
        "created_at": iso(now),
    }
    if expires_in_s is not None:
        document["expires_at"] = iso(now + expires_in_s)
    replace_file(paths, f"control/{control_id}.json", encode(document) + b"\n")
    return control_id


def answer(events: Iterable[Json], control_id: str) -> tuple[str, Json]:
    """State of a request by the run's events, and the data of the last one.

    Asked, accepted, done or refused.
    """
    state: tuple[str, Json] = ("asked", {})
    for event in events:
        kind, data = str(event.get("type")), event.get("data") or {}
        if kind.startswith("rl.control.") and data.get("control_id") == control_id:
            state = (kind.removeprefix("rl.control."), data)
    return state


class ControlBox:
    """The coordinator's side. Each request is given once; it stays in its place until `finish`.

    What stands there as a later attempt begins was asked of an earlier one. No clock is asked for that: those of two
    machines differ, and one may jump. A first attempt has nothing before it: what came while it started is its own.
    """

    def __init__(self, root: str | os.PathLike[str], *, attempt: int = 1) -> None:
        """To be made before the attempt's first status can be read."""
        self.paths = RunPaths(root)
        self._given: set[str] = set()
        self._leftover = frozenset(self._names() if attempt > 1 else ())

    def take(self) -> list[Request]:
        """New requests by name, so in the order of asking.

        What cannot be carried out comes with a `refusal`.
        """
        found = []
        for name in self._names():
            match = _NAME.match(name)
            if match and match[1] not in self._given:
                self._given.add(match[1])
                found.append(self._read(match[1], name))
        return found

    def finish(self, request: Request) -> None:
        """Move an answered request to `control/done/`."""
        name = f"{request.control_id}.json"
        make_folder(self.paths.control_done)
        try:
            os.rename(self.paths.control / name, self.paths.control_done / name)
        except FileNotFoundError:
            return  # its asker took it back
        sync_folder(self.paths.control_done)

    def _names(self) -> list[str]:
        try:
            return sorted(entry.name for entry in os.scandir(self.paths.control))
        except FileNotFoundError:
            return []

    def _read(self, control_id: str, name: str) -> Request:
        try:
            document = decode_object(self._bytes(name))
            request = msgspec.convert(document, Request)
            from_iso(request.created_at)
            expires = from_iso(request.expires_at) if request.expires_at else None
        except (OSError, ValueError):
            return Request(control_id=control_id, refusal="invalid")
        request.refusal = None
        if request.control_id != control_id or document.get("schema", SCHEMA) > SCHEMA:
            return Request(control_id=control_id, action=request.action, refusal="invalid")
        if request.action not in ACTIONS:
            request.refusal = "no_such_action"
        elif name in self._leftover or (expires is not None and expires < time.time()):
            request.refusal = "expired"
        return request

    def _bytes(self, name: str) -> bytes:
        fd = self.paths.open(f"control/{name}")
        try:
            if not stat.S_ISREG(os.fstat(fd).st_mode):
                raise ValueError("not a file")
            data = read_range(fd, 0, MAX_REQUEST_BYTES + 1)
        finally:
            os.close(fd)
        if len(data) > MAX_REQUEST_BYTES:
            raise ValueError("too long for a request")
        return data


def user_name() -> str:
    """Of this process; its number where it has no name."""
    try:
        return getpass.getuser()
    except (KeyError, OSError):
        return str(os.getuid())
