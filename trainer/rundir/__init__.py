"""The run directory: everything that trainer and viewers share (WIRE 5). No torch."""

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
