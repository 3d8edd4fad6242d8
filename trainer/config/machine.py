"""What this machine has, found without importing torch."""

from collections.abc import Mapping
from functools import cache
from pathlib import Path

_BF16_FLAGS = ("amx_bf16", "avx512_bf16")


def count_gpus(environ: Mapping[str, str]) -> int:
    """NVIDIA devices that are visible to this process."""
    present = len(list(Path("/dev").glob("nvidia[0-9]*")))
    visible = environ.get("CUDA_VISIBLE_DEVICES")
    if visible is None:
        return present
    named = [part for part in visible.split(",") if part.strip() and part.strip() != "-1"]
    return min(present, len(named))


@cache
def cpu_is_fast_at_bf16() -> bool:
    try:
        with open("/proc/cpuinfo", encoding="utf-8") as file:
            flags = next((line for line in file if line.startswith("flags")), "")
    except OSError:
        return False
    return any(flag in flags.split() for flag in _BF16_FLAGS)
