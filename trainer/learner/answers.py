"""What the learner's process answers: a result, or an error of one sentence and what to do, never a traceback."""

from __future__ import annotations

import errno
from typing import Any

import torch
import torch.distributed as dist

from trainer.frames import Frame
from trainer.learner import parallel
from trainer.learner.checkpoint import CheckpointUnusable
from trainer.learner.learner import TrainingFailed
from trainer.learner.policy import UnsupportedModel
from trainer.learner.protocol import RANK_LOST

_OUT_OF_MEMORY = ("not enough memory", "out of memory", "can't allocate memory")


def result(**fields: Any) -> Frame:
    return {"type": "result", "result": fields}


def error(message: str, hint: str, *, fatal: bool, code: str = "learner_failed") -> Frame:
    return {"type": "error", "code": code, "message": message, "hint": hint, "fatal": fatal}


def describe(problem: Exception, who: str = "learner") -> Frame:
    """who: the process that tells it, for the text and the name of its log."""
    text = (str(problem).strip().splitlines() or [""])[0][:500]
    if isinstance(problem, MemoryError | torch.OutOfMemoryError) or any(
        sign in str(problem).lower() for sign in _OUT_OF_MEMORY
    ):
        return error(f"the {who} ran out of memory", "lower training.micro_batch_tokens", fatal=True)
    if isinstance(problem, dist.DistError) or (parallel.size() > 1 and "gloo" in str(problem)):
        lost = f"another rank of the {who} ended, or did not answer within {parallel.TIMEOUT_S} s"
        return error(lost, f"see logs/{who}-0.log", fatal=True, code=RANK_LOST)
    if isinstance(problem, TrainingFailed):
        return error(text, problem.hint, fatal=True)
    if isinstance(problem, UnsupportedModel):
        return error(text, "policy.model_name names the model", fatal=True)
    if isinstance(problem, CheckpointUnusable):
        return error(text, "resume from an older checkpoint, or start a new run", fatal=True)
    if isinstance(problem, OSError) and problem.errno in (errno.ENOSPC, errno.EDQUOT):
        place = f" at {problem.filename}" if problem.filename else ""
        return error(f"no space left on the disk{place}", "free some space", fatal=True, code="disk_full")
    if isinstance(problem, OSError):
        where = f" ({problem.filename})" if problem.filename else ""
        denied = problem.errno in (errno.EROFS, errno.EACCES, errno.EPERM)
        hint = "make it accessible, then go on with rltui train --resume" if denied else f"see logs/{who}-0.log"
        return error(f"{problem.strerror or text}{where}", hint, fatal=True)
    if isinstance(problem, ValueError):
        return error(text, "", fatal=True)
    return error(f"{type(problem).__name__}: {text}", f"see logs/{who}-0.log", fatal=True)
