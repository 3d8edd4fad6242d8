"""Where a run may be started: what is offered, and what each is in words."""

from __future__ import annotations

import shutil
from collections.abc import Sequence

from rltui.launch.targets import KNOWN
from rltui.screens.choice import Choice

OTHER = "\0"  # the value of the last choice: an address is typed
_WORDS = {
    "local": "this machine, in a session of its own",
    "http": "a job server",
    "https": "a job server",
    "ssh": "a job server that is started or found there",
}


def about(name: str) -> str:
    """What a target of this name is."""
    scheme = name.partition(":")[0]
    return _WORDS.get(scheme) or next((words for known, words in KNOWN if known.partition(":")[0] == scheme), "")


def choices(servers: Sequence[str], now: str) -> list[Choice]:
    """What is offered: this machine, the servers that are known, the batch system if there is one."""
    batch = ["slurm"] * bool(shutil.which("sbatch"))
    names = list(dict.fromkeys(["local", now, *servers, *batch]))
    return [*(Choice(name, name, about(name)) for name in names), Choice(OTHER, "another", "its address is typed")]
