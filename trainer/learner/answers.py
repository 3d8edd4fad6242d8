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
from trainer.learner.protocol import NO_MEMORY, RANK_LOST, LearnerSettings

_OUT_OF_MEMORY = ("not enough memory", "out of memory", "can't allocate memory")


def result(**fields: Any) -> Frame:
    return {"type": "result", "result": fields}


def error(message: str, hint: str, *, fatal: bool, code: str = "learner_failed") -> Frame:
    return {"type": "error", "code": code, "message": message, "hint": hint, "fatal": fatal}


def out_of_memory(problem: Exception) -> bool:
    """Of a GPU, or of a machine that says so: a CPU's allocator raises a plain RuntimeError."""
    told = str(problem).lower()
    return isinstance(problem, MemoryError | torch.OutOfMemoryError) or any(sign in told for sign in _OUT_OF_MEMORY)


def describe(problem: Exception, who: str = "learner") -> Frame:
    """who: the process that tells it, for the text and the name of its log."""
    text = (str(problem).strip().splitlines() or [""])[0][:500]
    if out_of_memory(problem):
        return error(f"the {who} ran out of memory", "lower training.micro_batch_tokens", fatal=True, code=NO_MEMORY)
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


def does_not_fit(settings: LearnerSettings) -> Frame:
    """Of a rehearsal that ran out of memory, with the key to lower."""
    tokens, longest = settings.micro_batch_tokens, settings.max_seq_len
    if tokens > longest:
        hint = f"lower training.micro_batch_tokens (here {tokens}; at least training.max_seq_len, {longest})"
    else:
        more = "" if settings.gradient_checkpointing else ", or set training.gradient_checkpointing = true"
        hint = f"lower training.max_seq_len (here {longest}){more}"
    message = (
        f"the learner ran out of memory as it rehearsed the longest micro-batch that a step can have, of "
        f"{max(tokens, longest)} tokens in sequences of up to {longest}"
    )
    return error(message, hint, fatal=True, code=NO_MEMORY)
