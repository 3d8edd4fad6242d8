"""Damage to the files of a run that is at rest."""

from __future__ import annotations

import json
import os
from pathlib import Path

FILES = {
    "weights": "*.safetensors",
    "optimizer": "optimizer/*.safetensors",
    "state": "state.json",
    "manifest": "manifest.json",
    "stable": "STABLE",
}


def damage_line(run: Path, name: str, draw: float, *, torn: bool) -> tuple[str, int] | None:
    """After the last line another one that cannot be read, without its end (`torn`) or whole.

    Returns:
        Its file and byte; None where there is no line yet, or one is torn already.
    """
    path = run / name
    lines = path.read_bytes().split(b"\n") if path.is_file() else []
    if len(lines) < 2 or lines[-1]:
        return None
    last, size = lines[-2], path.stat().st_size
    with path.open("ab") as file:
        file.write(last[: 1 + int(draw * len(last) * 0.8)] if torn else b"\x00{" + last[2:] + b"\n")
    return name, size


def cut_last_line(run: Path, name: str, draw: float, newest: int) -> bool:
    """Takes the end of the last line, as a machine that loses its power does with what it had not written yet.

    Only where that line is of no account once the run goes on from the checkpoint of step `newest`, which was written
    after all that is. False: it is not so.
    """
    path = run / name
    lines = path.read_bytes().split(b"\n") if path.is_file() else []
    if len(lines) < 3 or lines[-1]:
        return False
    try:
        last = json.loads(lines[-2])
    except ValueError:
        return False
    if last["step"] <= newest or last.get("type") == "rl.resumed":
        return False
    os.truncate(path, path.stat().st_size - 1 - int(draw * (len(lines[-2]) - 1)))
    return True


def file_of(checkpoint: Path, which: str) -> Path:
    return min(checkpoint.glob(FILES[which]))


def damaged(data: bytes, draw: float, *, cut: bool) -> bytes:
    """Without its end (`cut`), or with another bit."""
    at = int(draw * (len(data) - 1))
    return data[:at] + (b"" if cut else bytes([data[at] ^ 1]) + data[at + 1 :])
