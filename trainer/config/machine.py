"""What this machine has, found without importing torch."""

from collections.abc import Mapping
from dataclasses import dataclass
from functools import cache
from pathlib import Path

_BF16_FLAGS = ("amx_bf16", "avx512_bf16")
_DRIVER = Path("/proc/driver/nvidia/gpus")


@dataclass(frozen=True, slots=True)
class Machine:
    """
    Attributes:
        gpus: NVIDIA devices that are visible; None: not known, as of a machine that is not this one.
        gpu_name: what the driver calls the first one: `NVIDIA H100 80GB HBM3`.
    """

    gpus: int | None
    gpu_name: str | None = None


NO_GPUS = Machine(0)
ELSEWHERE = Machine(None)


def inspect(environ: Mapping[str, str]) -> Machine:
    gpus = count_gpus(environ)
    return Machine(gpus, gpu_name() if gpus else None)


def count_gpus(environ: Mapping[str, str]) -> int:
    """NVIDIA devices that are visible to this process."""
    present = len(list(Path("/dev").glob("nvidia[0-9]*")))
    visible = environ.get("CUDA_VISIBLE_DEVICES")
    if visible is None:
        return present
    named = [part for part in visible.split(",") if part.strip() and part.strip() != "-1"]
    return min(present, len(named))


def gpu_name() -> str | None:
    """Of the first NVIDIA GPU, as its driver names it; None: no driver tells of one."""
    for file in sorted(_DRIVER.glob("*/information")):
        try:
            lines = file.read_text(encoding="utf-8", errors="replace").splitlines()
        except OSError:
            continue
        for line in lines:
            name, _, value = line.partition(":")
            if name.strip() == "Model" and value.strip():
                return value.strip()
    return None


@cache
def cpu_is_fast_at_bf16() -> bool:
    """Whether it multiplies bf16 in hardware; False where that cannot be read."""
    try:
        with open("/proc/cpuinfo", encoding="utf-8") as file:
            flags = next((line for line in file if line.startswith("flags")), "")
    except OSError:
        return False
    return any(flag in flags.split() for flag in _BF16_FLAGS)
