"""The learner's process: answers the coordinator's frames (protocol.py) until the socket closes.

On a CPU the learner and the engine share the cores. The synchronous loop alternates between them, so each
uses all of the cores in its turn; that holds only if the idle one sleeps, which OMP_WAIT_POLICY=PASSIVE and
KMP_BLOCKTIME=0 see to. They have to stand in the environment before torch is loaded: the coordinator sets
them.
"""

from __future__ import annotations

import ctypes
import errno
import logging
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import torch

from trainer.frames import SCHEMA, BlockingChannel, Frame
from trainer.learner import canary, checkpoint
from trainer.learner.learner import Learner, TrainingFailed
from trainer.learner.policy import UnsupportedModel
from trainer.learner.protocol import LearnerSettings, Sequence, StepResult, from_frame, to_frame

log = logging.getLogger("trainer.learner")

_M_TRIM_THRESHOLD, _M_MMAP_THRESHOLD = -1, -3
_OUT_OF_MEMORY = ("not enough memory", "out of memory", "can't allocate memory")


def keep_freed_memory() -> None:
    """Has glibc keep what torch frees: else every large tensor is mapped, zeroed and unmapped, a third of the
    time.
    """
    if sys.platform == "linux":
        libc = ctypes.CDLL(None)
        if hasattr(libc, "mallopt"):
            libc.mallopt(_M_MMAP_THRESHOLD, 1 << 30)
            libc.mallopt(_M_TRIM_THRESHOLD, (1 << 31) - 1)


def serve(channel: BlockingChannel) -> None:
    """Answers frames in order; returns at `stop` or when the coordinator is gone."""
    worker = _Worker()
    try:
        while (frame := channel.receive()) is not None:
            channel.send({**worker.answer(frame), "id": frame.get("id")})
            if frame.get("type") == "stop":
                return
    except (BrokenPipeError, ConnectionResetError):
        return


class _Worker:
    def __init__(self) -> None:
        self._learner: Learner | None = None
        self._handlers: dict[str, Callable[[Frame], Frame]] = {
            "hello": self._hello,
            "anchor": self._anchor,
            "batch": self._batch,
            "sync": self._sync,
            "canary": lambda frame: canary.answer(self._learner.policy, frame),
            "checkpoint": self._checkpoint,
            "set": self._set,
            "stop": lambda _: {"type": "result", "result": {}},
        }

    def answer(self, frame: Frame) -> Frame:
        handler = self._handlers.get(frame.get("type", ""))
        if handler is None:
            return _error(f"the learner knows no frame of type {frame.get('type')!r}", "", fatal=False)
        if self._learner is None and frame["type"] not in ("hello", "stop"):
            return _error(f"'{frame['type']}' came before 'hello'", "", fatal=False)
        try:
            return handler(frame)
        except Exception as error:
            log.debug("%s failed", frame["type"], exc_info=True)
            return _describe(error)

    def _hello(self, frame: Frame) -> Frame:
        if frame.get("schema") == SCHEMA:
            settings = from_frame(frame["settings"], LearnerSettings)
            learner = Learner(settings)
            if settings.resume_from:
                checkpoint.read(learner, Path(settings.resume_from))
            self._learner = learner
            return {"type": "hello", "schema": SCHEMA, "rank": 0, "info": to_frame(learner.info)}
        return _error(
            f"the coordinator speaks schema {frame.get('schema')}, the learner {SCHEMA}",
            "install one version of rltui for both",
            fatal=True,
        )

    def _anchor(self, frame: Frame) -> Frame:
        updates = [[from_frame(entry, Sequence) for entry in part] for part in frame["updates"]]
        return {"type": "result", "result": to_frame(self._learner.anchor(updates))}

    def _batch(self, frame: Frame) -> Frame:
        sequences = [from_frame(entry, Sequence) for entry in frame["sequences"]]
        result: StepResult = self._learner.step(int(frame["step"]), sequences)
        return {"type": "result", "result": to_frame(result)}

    def _sync(self, frame: Frame) -> Frame:
        started = time.perf_counter()
        policy, folder = self._learner.policy, Path(frame["path"])
        adapter = frame.get("mode") == "lora"
        written = checkpoint.write_adapter(policy, folder) if adapter else policy.export(folder)
        gap = 0.0 if adapter else policy.rounding_gap
        return _result(bytes=written, seconds=time.perf_counter() - started, rounding_gap=gap)

    def _checkpoint(self, frame: Frame) -> Frame:
        started = time.perf_counter()
        written = checkpoint.write(
            self._learner, Path(frame["path"]), frame["state"], optimizer=bool(frame.get("optimizer", True))
        )
        return _result(bytes=written, seconds=time.perf_counter() - started)

    def _set(self, frame: Frame) -> Frame:
        self._learner.set(frame["values"])
        return _result()


def _result(**fields: Any) -> Frame:
    return {"type": "result", "result": fields}


def _error(message: str, hint: str, *, fatal: bool, code: str = "learner_failed") -> Frame:
    return {"type": "error", "code": code, "message": message, "hint": hint, "fatal": fatal}


def _describe(error: Exception) -> Frame:
    """One sentence and what to do, never a traceback."""
    text = (str(error).strip().splitlines() or [""])[0][:500]
    if isinstance(error, MemoryError | torch.OutOfMemoryError) or any(
        sign in str(error).lower() for sign in _OUT_OF_MEMORY
    ):
        return _error("the learner ran out of memory", "lower training.micro_batch_tokens", fatal=True)
    if isinstance(error, TrainingFailed):
        return _error(text, error.hint, fatal=True)
    if isinstance(error, UnsupportedModel):
        return _error(text, "policy.model_name names the model", fatal=True)
    if isinstance(error, checkpoint.CheckpointUnusable):
        return _error(text, "resume from an older checkpoint, or start a new run", fatal=True)
    if isinstance(error, OSError) and error.errno in (errno.ENOSPC, errno.EDQUOT):
        place = f" at {error.filename}" if error.filename else ""
        return _error(f"no space left on the disk{place}", "free some space", fatal=True, code="disk_full")
    if isinstance(error, OSError):
        where = f" ({error.filename})" if error.filename else ""
        return _error(f"{error.strerror or text}{where}", "", fatal=True)
    if isinstance(error, ValueError):
        return _error(text, "", fatal=True)
    return _error(f"{type(error).__name__}: {text}", "see logs/learner-0.log", fatal=True)
