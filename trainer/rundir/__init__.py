"""The run directory: everything that trainer and viewers share (WIRE 5). No torch.

What is named here is loaded when it is first asked for: a viewer that only reads does not wait for what only
writers need.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from trainer.rundir.checkpoints import (
        Checkpoint,
        begin_checkpoint,
        finish_checkpoint,
        list_checkpoints,
        newest_resumable,
        point,
        prune,
        verify_checkpoint,
    )
    from trainer.rundir.control import ControlBox, Request, answer, ask
    from trainer.rundir.disk import Disk, DiskFull
    from trainer.rundir.layout import SCHEMA, RunPaths, new_job_id, run_folder_name
    from trainer.rundir.lines import Cursor, Damage, Slice
    from trainer.rundir.lock import RunLock, RunLocked
    from trainer.rundir.logs import LogFile, known_secrets, mask_secrets
    from trainer.rundir.process import ProcessId
    from trainer.rundir.reader import Liveness, RunReader
    from trainer.rundir.records import EpisodeRecord, Exclusion, GroupRecord, JudgeRecord, TurnRecord
    from trainer.rundir.status import RunStatus
    from trainer.rundir.textcut import text_of
    from trainer.rundir.tokens import DamagedBlock, TokensRemoved
    from trainer.rundir.writer import RunWriter

__all__ = [
    "SCHEMA",
    "Checkpoint",
    "ControlBox",
    "Cursor",
    "Damage",
    "DamagedBlock",
    "Disk",
    "DiskFull",
    "EpisodeRecord",
    "Exclusion",
    "GroupRecord",
    "JudgeRecord",
    "Liveness",
    "LogFile",
    "ProcessId",
    "Request",
    "RunLock",
    "RunLocked",
    "RunPaths",
    "RunReader",
    "RunStatus",
    "RunWriter",
    "Slice",
    "TokensRemoved",
    "TurnRecord",
    "answer",
    "ask",
    "begin_checkpoint",
    "finish_checkpoint",
    "known_secrets",
    "list_checkpoints",
    "mask_secrets",
    "new_job_id",
    "newest_resumable",
    "point",
    "prune",
    "run_folder_name",
    "text_of",
    "verify_checkpoint",
]

_MODULES = {
    "checkpoints": "Checkpoint begin_checkpoint finish_checkpoint list_checkpoints newest_resumable point prune "
    "verify_checkpoint",
    "control": "ControlBox Request answer ask",
    "disk": "Disk DiskFull",
    "layout": "SCHEMA RunPaths new_job_id run_folder_name",
    "lines": "Cursor Damage Slice",
    "lock": "RunLock RunLocked",
    "logs": "LogFile known_secrets mask_secrets",
    "process": "ProcessId",
    "reader": "Liveness RunReader",
    "records": "EpisodeRecord Exclusion GroupRecord JudgeRecord TurnRecord",
    "status": "RunStatus",
    "textcut": "text_of",
    "tokens": "DamagedBlock TokensRemoved",
    "writer": "RunWriter",
}
_HOME = {name: module for module, names in _MODULES.items() for name in names.split()}


def __getattr__(name: str) -> Any:
    if name not in _HOME:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    value = getattr(import_module(f"{__name__}.{_HOME[name]}"), name)
    globals()[name] = value
    return value
