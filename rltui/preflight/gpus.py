"""What the NVIDIA driver says of its GPUs, by nvidia-smi: no library, and no memory of a GPU, is needed for it."""

from __future__ import annotations

import shutil
import subprocess
from dataclasses import dataclass
from pathlib import Path

LIMIT_S = 8.0
MIB = 2**20


@dataclass(frozen=True, slots=True)
class Gpu:
    """One device. users: name and pid of the processes that hold memory of it, as far as the driver tells."""

    index: str
    uuid: str
    name: str
    total: int
    used: int
    users: tuple[str, ...] = ()


def gpus() -> list[Gpu] | None:
    """Every device in the driver's order; None: there is no driver, or it gives no answer."""
    program = shutil.which("nvidia-smi")
    if program is None:
        return None
    try:
        devices = _ask(program, "--query-gpu=index,uuid,name,memory.total,memory.used")
        apps = _ask(program, "--query-compute-apps=gpu_uuid,pid,process_name")
    except (OSError, subprocess.SubprocessError):
        return None
    return parse(devices, apps)


def parse(devices: str, apps: str) -> list[Gpu]:
    """The two tables of nvidia-smi (csv, no header, no units; memory in MiB)."""
    users: dict[str, list[str]] = {}
    for line in apps.splitlines():
        uuid, pid, name = ([part.strip() for part in line.split(",", 2)] + ["", ""])[:3]
        if pid.isdigit():
            users.setdefault(uuid, []).append(f"{Path(name).name or 'process'} ({pid})")
    found = []
    for line in devices.splitlines():
        parts = [part.strip() for part in line.split(",")]
        if len(parts) == 5 and parts[3].isdigit() and parts[4].isdigit():
            index, uuid, name, total, used = parts
            found.append(Gpu(index, uuid, name, int(total) * MIB, int(used) * MIB, tuple(users.get(uuid, ()))))
    return found


def chosen(all_: list[Gpu], visible: str | None, count: int) -> list[Gpu]:
    """The first `count` of those that CUDA_VISIBLE_DEVICES leaves, by index or UUID."""
    if visible is not None:
        named = [part.strip() for part in visible.split(",") if part.strip()]
        all_ = [gpu for name in named for gpu in all_ if name == gpu.index or gpu.uuid.startswith(name)]
    return all_[:count]


def _ask(program: str, query: str) -> str:
    command = [program, query, "--format=csv,noheader,nounits"]
    return subprocess.run(command, capture_output=True, text=True, timeout=LIMIT_S, check=True).stdout
