"""The folders that are the user's own: what they configure, and what the interface keeps for them."""

from __future__ import annotations

import os
from collections.abc import Mapping
from pathlib import Path


def config_folder(env: Mapping[str, str] = os.environ) -> Path:
    """`$XDG_CONFIG_HOME/rltui`; whether it exists or not."""
    return _folder(env, "XDG_CONFIG_HOME", ".config")


def state_folder(env: Mapping[str, str] = os.environ) -> Path:
    """`$XDG_STATE_HOME/rltui`; whether it exists or not."""
    return _folder(env, "XDG_STATE_HOME", ".local/state")


def write_private(file: Path, data: bytes) -> None:
    """A file for its owner alone, whole or as it was; its folder is made where there is none. OSError."""
    import tempfile  # a verb that only looks for a folder starts without it

    file.parent.mkdir(parents=True, exist_ok=True, mode=0o700)
    descriptor, aside = tempfile.mkstemp(dir=file.parent, prefix=f".{file.name[:40]}.")  # mode 0600
    try:
        with open(descriptor, "wb") as stream:
            stream.write(data)
        os.replace(aside, file)
    except BaseException:
        Path(aside).unlink(missing_ok=True)
        raise


def _folder(env: Mapping[str, str], variable: str, usual: str) -> Path:
    """A relative value counts as none, as the standard says."""
    named = env.get(variable, "")
    home = env.get("HOME") or os.path.expanduser("~")
    return (Path(named) if os.path.isabs(named) else Path(home, usual)) / "rltui"
