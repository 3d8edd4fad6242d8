"""What the GPUs of a run do, as nvidia-smi tells: no library, and no memory of a GPU, is needed for it."""

from __future__ import annotations

import shutil
import subprocess
from collections.abc import Callable, Mapping, Sequence

from trainer.config import RunConfig
from trainer.config.gpus import on_gpu
from trainer.devices import learner_places, local_gpus, reference_places, replica_places
from trainer.rundir.status import Gpu

QUERY = "index,uuid,utilization.gpu,memory.used,memory.total"
LIMIT_S = 8.0
_MIB = 2**20
_FIELDS = 5


class Gpus:
    """Those that processes of the run may see. Without any, or without the driver's program, nothing is asked."""

    def __init__(self, config: RunConfig, environ: Mapping[str, str], ask: Callable[[], str] | None = None) -> None:
        """`ask` gives the table of nvidia-smi."""
        self._roles = roles(config, environ)
        self._ask = ask or _ask
        self._found = bool(self._roles) and (ask is not None or shutil.which("nvidia-smi") is not None)

    def read(self) -> list[Gpu]:
        """May take LIMIT_S: for a thread. Empty: there are none, or the driver gives no answer."""
        if not self._found:
            return []
        try:
            return parse(self._ask(), self._roles)
        except (OSError, subprocess.SubprocessError):
            return []


def roles(config: RunConfig, environ: Mapping[str, str]) -> dict[str, str]:
    """Who is on each GPU, by the name that CUDA_VISIBLE_DEVICES gives it: "learner", or "learner, inference". Those of
    other nodes are not asked."""
    if not on_gpu(config) or config.compute.launcher != "local":
        return {}
    gpus = local_gpus(config, environ)
    placed = [("inference", place) for place in replica_places(config, gpus)]
    placed += [("learner", place) for place in learner_places(config, gpus)]
    if config.compute.topology.reference_placement == "dedicated":
        placed += [("reference", place) for place in reference_places(config, gpus)]
    found: dict[str, str] = {}
    for role, place in placed:
        for device in place.devices:
            found[device] = f"{found[device]}, {role}" if device in found else role
    return found


def parse(table: str, roles: Mapping[str, str]) -> list[Gpu]:
    """The rows of GPUs that have a role (csv, no header, no units: use in percent, memory in MiB).

    What a device does not tell stands there as [N/A], and is None here.
    """
    found = []
    for line in table.splitlines():
        parts = [part.strip() for part in line.split(",")]
        if len(parts) != _FIELDS or not parts[0].isdigit():
            continue
        index, uuid, used, taken, total = parts
        role = next((role for name, role in roles.items() if name == index or (name and uuid.startswith(name))), None)
        if role is not None:
            util, memory, whole = _number(used), _number(taken), _number(total)
            found.append(
                Gpu(
                    index=int(index),
                    role=role,
                    util=None if util is None else util / 100.0,
                    used_bytes=None if memory is None else int(memory * _MIB),
                    total_bytes=None if whole is None else int(whole * _MIB),
                )
            )
    return found


def metrics(gpus: Sequence[Gpu]) -> dict[str, float]:
    """system/*: the mean use and the fullest memory, as shares; of several GPUs also each one's own."""
    util = {gpu.index: gpu.util for gpu in gpus if gpu.util is not None}
    mem = {
        gpu.index: gpu.used_bytes / gpu.total_bytes for gpu in gpus if gpu.used_bytes is not None and gpu.total_bytes
    }
    found: dict[str, float] = {}
    if util:
        found["system/gpu_util"] = sum(util.values()) / len(util)
    if mem:
        found["system/gpu_mem"] = max(mem.values())
    if len(gpus) > 1:
        found |= {f"system/gpu_util_{index}": share for index, share in util.items()}
        found |= {f"system/gpu_mem_{index}": share for index, share in mem.items()}
    return found


def _number(text: str) -> float | None:
    try:
        return float(text)
    except ValueError:
        return None


def _ask() -> str:
    command = ["nvidia-smi", f"--query-gpu={QUERY}", "--format=csv,noheader,nounits"]
    return subprocess.run(command, capture_output=True, text=True, timeout=LIMIT_S, check=True).stdout
