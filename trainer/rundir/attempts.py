"""What an earlier attempt left for the one that goes on from it: its config, its number, its surroundings."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import msgspec

from trainer.rundir.jsonl import Json, decode_object
from trainer.rundir.layout import RunPaths
from trainer.rundir.reader import RunReader
from trainer.rundir.resume import Resumed


class NoEarlierAttempt(ValueError):
    """The folder holds no run that could be gone on with. The text says what it lacks."""


class Earlier(msgspec.Struct, kw_only=True):
    """The newest attempt of a run folder."""

    paths: RunPaths
    attempt: int
    job_id: str
    label: str
    state: str
    config_text: str  # config.toml as it was given
    config_name: str  # where that file lay when the run was started
    cwd: str | None  # what its relative paths are relative to
    allow_unknown: bool
    values: Json  # key path -> resolved leaf {value, origin, at?, ...}
    resumes: list[Resumed]

    @property
    def sets(self) -> dict[str, Any]:
        """Values by key that were given on the command line, of this attempt or one before it."""
        return {key: leaf["value"] for key, leaf in self.values.items() if leaf.get("at") == "--set"}


def read_earlier(root: str | Path) -> Earlier:
    """Raises NoEarlierAttempt; OSError for a folder that cannot be read."""
    reader = RunReader(root)
    paths, status = reader.paths, reader.status()
    if status is None:
        raise NoEarlierAttempt(f"{paths.root} holds no run: it has no status.json that can be read")
    try:
        text = paths.read("config.toml").decode("utf-8-sig")
        values = leaves(decode_object(paths.read("resolved.json"))["values"])
    except FileNotFoundError as error:
        raise NoEarlierAttempt(f"{paths.root} has no {Path(error.filename or '').name}: it never started") from None
    except (ValueError, KeyError, TypeError) as error:
        raise NoEarlierAttempt(f"{paths.root} is damaged: its config cannot be read ({error})") from None
    surroundings = _surroundings(paths)
    return Earlier(
        paths=paths,
        attempt=int(status.get("attempt") or 1),
        job_id=str(status.get("job_id")),
        label=str(status.get("label")),
        state=str(status.get("state")),
        config_text=text,
        config_name=str(surroundings.get("config") or paths.config),
        cwd=surroundings.get("cwd"),
        allow_unknown="--allow-unknown" in surroundings.get("argv", []),
        values=values,
        resumes=reader.resumes(),
    )


def waits(root: str | Path) -> bool:
    """Whether the folder holds a run that a job server or launcher has made and that no coordinator has begun yet."""
    status = RunReader(root).status() or {}
    return status.get("state") == "queued" and status.get("attempt") == 1


def leaves(values: Any, prefix: str = "") -> Json:
    """The leaves {value, origin, ...} of resolved.json by key path."""
    found: Json = {}
    for name, item in values.items():
        if not isinstance(item, dict):
            raise ValueError(f"{prefix}{name} is no value of a resolved config")
        if isinstance(item.get("origin"), str) and "value" in item:
            found[prefix + name] = item
        else:
            found.update(leaves(item, f"{prefix}{name}."))
    return found


def _surroundings(paths: RunPaths) -> Json:
    try:
        return decode_object(paths.read("environment.json"))
    except (OSError, ValueError):
        return {}
