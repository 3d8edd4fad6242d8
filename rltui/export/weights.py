"""The weights of a checkpoint as a folder of their own: the adapter as it is, or the whole model."""

from __future__ import annotations

import json
import shutil
import subprocess
import sys
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

from rltui.sources.base import Json
from trainer.rundir.checkpoints import MANIFEST, STABLE, Checkpoint, verify_checkpoint

STATE = "state.json"
ADAPTER = "adapter_model.safetensors"
_RESUME = frozenset({MANIFEST, STATE, STABLE, "value_head.safetensors"})  # what is of no use without its run


class NoWeights(LookupError):
    """There is no such checkpoint, or it is of no use; the text says why and what there is."""


def chosen(checkpoints: Sequence[Checkpoint], wanted: str) -> Checkpoint:
    """`wanted`: best (else the newest), latest, or a step. NoWeights: none, or its files are damaged."""
    if not checkpoints:
        raise NoWeights("it has no checkpoint yet")
    found = next((one for one in reversed(checkpoints) if one.is_best), None) if wanted == "best" else None
    if found is None and wanted in ("best", "latest"):
        found = checkpoints[-1]
    found = found or next((one for one in checkpoints if wanted in (str(one.step), one.path.name)), None)
    if found is None:
        steps = ", ".join(str(one.step) for one in checkpoints)
        raise NoWeights(f"it has no checkpoint {wanted!a}; there are those of steps {steps}")
    if wrong := verify_checkpoint(found.path, optimizer=False):
        older = [one.step for one in checkpoints if one.step < found.step]
        hint = f"; --checkpoint {older[-1]} is older" if older else ""
        raise NoWeights(f"{found.path.name} is damaged: {wrong[0]}{hint}")
    return found


def copy_adapter(checkpoint: Checkpoint, out: Path) -> int:
    """The adapter, its config and the tokenizer, in the stock layout; gives the bytes. NoWeights: it has none."""
    if not (checkpoint.path / ADAPTER).is_file():
        raise NoWeights("it has no adapter: policy.trainer_mode is full; --what merged gives the model")
    return _copied(checkpoint.path, out)


def merge(checkpoint: Checkpoint, out: Path, base: str | None, dtype: str | None, told: Callable[[str], Any]) -> int:
    """The whole model; gives the bytes. `told` gets the words of the process that merges. NoWeights."""
    if not (checkpoint.path / ADAPTER).is_file():
        return _copied(checkpoint.path, out)
    name = base or _text((checkpoint.manifest.get("base_model") or {}).get("name"))
    if not name:
        raise NoWeights("its checkpoint does not name its base model; give it by --base")
    # -P: a folder named `trainer` where the person happens to stand must not shadow ours
    command = [sys.executable, "-P", "-m", "trainer", "export", str(checkpoint.path), "--out", str(out), "--base", name]
    if dtype is not None:
        command += ["--dtype", dtype]
    last: Json = {}
    with subprocess.Popen(command, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, text=True) as process:
        assert process.stdout is not None
        for line in process.stdout:
            last = _object(line) or last
            if last.get("type") == "progress":
                told(str(last.get("message")))
    if process.returncode or last.get("type") != "result":
        raise NoWeights(
            _text(last.get("message")) or "the process that merges ended without a word; its extra is train"
        )
    return sum(file.stat().st_size for file in out.rglob("*") if file.is_file())


def _copied(folder: Path, out: Path) -> int:
    out.mkdir(parents=True)
    total = 0
    for file in sorted(folder.iterdir()):
        if file.is_file() and not file.is_symlink() and file.name not in _RESUME:
            shutil.copyfile(file, out / file.name)
            total += file.stat().st_size
    return total


def _text(value: Any) -> str | None:
    return value if isinstance(value, str) and value else None


def _object(line: str) -> Json:
    try:
        value = json.loads(line)
    except (ValueError, RecursionError):
        return {}
    return value if isinstance(value, dict) else {}
