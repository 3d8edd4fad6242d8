"""What estimates need and a config does not say: read from this machine. In a thread: it opens files."""

from __future__ import annotations

import json
import os
import shutil
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from rltui.model.estimates import Facts, Past
from rltui.model.model_shape import shape_of
from trainer.config import Loaded
from trainer.config.gpus import on_gpu
from trainer.rundir.layout import RunPaths

MOST_RUNS = 50  # looked at, newest first
READ_BYTES = 1 << 20  # of metrics.jsonl, from its end
LENGTH = "length/mean"


def known(loaded: Loaded) -> Facts:
    """Of the model, the machine and past runs of a config. The memory of a GPU is known to who asks its driver."""
    name = loaded.config.policy.model_name
    runs = Path(loaded.config.logging.runs_dir).expanduser()
    return Facts(
        shape=None if name is None else shape_of(name),
        past=None if name is None else past_run(runs, name, gpu=on_gpu(loaded.config)),
        memory=free_memory(),
        disk=free_disk(Path(loaded.config.checkpoint.dir or runs).expanduser()),
    )


def free_memory() -> int | None:
    """Bytes that programs can still have, without swapping."""
    import psutil

    try:
        return int(psutil.virtual_memory().available)
    except (OSError, psutil.Error):
        return None


def free_disk(folder: Path) -> int | None:
    """Bytes free where `folder` is, or would be."""
    for place in (folder.absolute(), *folder.absolute().parents):
        try:
            return shutil.disk_usage(place).free
        except OSError:
            continue
    return None


def past_run(runs: Path, model: str, *, gpu: bool) -> Past | None:
    """The newest run of `model` in `runs`, on GPUs or not, that has finished two iterations, or more."""
    return next(filter(None, (_past(folder, model, gpu) for folder in _newest(runs))), None)


def _newest(runs: Path) -> Iterator[Path]:
    try:
        with os.scandir(runs) as entries:
            found = sorted(((e.stat().st_mtime, e.path) for e in entries if e.is_dir()), reverse=True)
    except OSError:
        return
    yield from (Path(path) for _, path in found[:MOST_RUNS])


def _past(folder: Path, model: str, gpu: bool) -> Past | None:
    try:
        values = json.loads(RunPaths(folder).read("resolved.json"))
        on_cpu = _value(values, "compute.topology.type") == "cpu"
        if _value(values, "policy.model_name") != model or on_cpu is gpu:
            return None
        size = os.stat(RunPaths(folder).metrics, follow_symlinks=False).st_size
        start = max(0, size - READ_BYTES)
        lines = RunPaths(folder).read("metrics.jsonl", start).split(b"\n")[1 if start else 0 :]
        return _of_lines(folder.name, values, [json.loads(line) for line in lines if line.endswith(b"}")])
    except (OSError, ValueError, KeyError, TypeError, RecursionError):
        return None


def _of_lines(name: str, resolved: Any, rows: list[dict[str, Any]]) -> Past | None:
    """By the time between the first and the last finished iteration of its last attempt."""
    steps = [row for row in rows if "eval_step" not in row and row["iteration"] >= 1]
    steps = [row for row in steps if row["attempt"] == steps[-1]["attempt"]]
    if not steps:
        return None
    first, last = steps[0], steps[-1]
    iterations = last["iteration"] - first["iteration"]
    seconds = float(last["time"] - first["time"])
    episodes = int(resolved["derived"]["E"])
    if iterations < 1 or seconds <= 0 or episodes < 1:
        return None
    lengths = [row[LENGTH] for row in steps if isinstance(row.get(LENGTH), int | float)]
    return Past(
        name=name,
        iterations=iterations,
        episodes=episodes,
        seconds=seconds / iterations,
        trainer_mode=str(_value(resolved, "policy.trainer_mode")),
        tokens=sum(lengths) / len(lengths) if lengths else None,
    )


def _value(resolved: Any, key: str) -> Any:
    found = resolved["values"]
    for part in key.split("."):
        found = found[part]
    return found["value"]
