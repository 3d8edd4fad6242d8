"""The learner's process: answers the coordinator's frames (protocol.py) until the socket closes.

Of several ranks each has a connection of its own, gets every frame and answers it; all do the same in the same order,
and the answer of rank 0 is the learner's.

On a CPU the learner and the engine share the cores. The synchronous loop alternates between them, so each
uses all of the cores in its turn; that holds only if the idle one sleeps, which OMP_WAIT_POLICY=PASSIVE and
KMP_BLOCKTIME=0 see to. They have to stand in the environment before torch is loaded: the coordinator sets
them.
"""

from __future__ import annotations

import ctypes
import logging
import os
import sys
import time
from collections.abc import Callable
from pathlib import Path

import torch

from trainer.frames import SCHEMA, BlockingChannel, Frame
from trainer.learner import answers, canary, checkpoint, parallel
from trainer.learner.learner import Learner
from trainer.learner.protocol import LearnerSettings, Sequence, StepResult, from_frame, to_frame

log = logging.getLogger("trainer.learner")

_M_TRIM_THRESHOLD, _M_MMAP_THRESHOLD = -1, -3


def keep_freed_memory() -> None:
    """Has glibc keep what torch frees: else every large tensor is mapped, zeroed and unmapped, a third of the
    time.
    """
    if sys.platform == "linux":
        libc = ctypes.CDLL(None)
        if hasattr(libc, "mallopt"):
            libc.mallopt(_M_MMAP_THRESHOLD, 1 << 30)
            libc.mallopt(_M_TRIM_THRESHOLD, (1 << 31) - 1)


def serve(channel: BlockingChannel, answer: Callable[[Frame], Frame] | None = None) -> None:
    """Answers frames in order; returns at `stop` or when the coordinator is gone. `answer`: of another role."""
    answer = answer or _Worker().answer
    try:
        while (frame := channel.receive()) is not None:
            channel.send({**answer(frame), "id": frame.get("id"), "rank": parallel.rank(), "pid": os.getpid()})
            if frame.get("type") == "stop":
                return
    except (BrokenPipeError, ConnectionResetError):
        return


class _Worker:
    def __init__(self) -> None:
        self._learner: Learner | None = None
        self._handlers: dict[str, Callable[[Frame], Frame]] = {
            "hello": self._hello,
            "rehearse": self._rehearse,
            "anchor": self._anchor,
            "batch": self._batch,
            "sync": self._sync,
            "layout": self._layout,
            "connect": self._connect,
            "send": self._send,
            "canary": lambda frame: canary.answer(self._learner.policy, frame),
            "checkpoint": self._checkpoint,
            "set": self._set,
            "stop": lambda _: {"type": "result", "result": {}},
        }

    def answer(self, frame: Frame) -> Frame:
        handler = self._handlers.get(frame.get("type", ""))
        if handler is None:
            return answers.error(f"the learner knows no frame of type {frame.get('type')!r}", "", fatal=False)
        if self._learner is None and frame["type"] not in ("hello", "stop"):
            return answers.error(f"'{frame['type']}' came before 'hello'", "", fatal=False)
        try:
            return handler(frame)
        except Exception as error:  # answered, whatever it is
            log.debug("%s failed", frame["type"], exc_info=True)
            return answers.describe(error)

    def _hello(self, frame: Frame) -> Frame:
        if frame.get("schema") == SCHEMA:
            parallel.start()
            settings = from_frame(frame["settings"], LearnerSettings)
            self._learner = None  # an earlier one: two may not fit
            learner = Learner(settings)
            if settings.resume_from:
                checkpoint.read(learner, Path(settings.resume_from))
            self._learner = learner
            info = learner.info
            log.info(
                "%s on %s: %d parameters, %d of them trained",
                settings.trainer_mode,
                learner.policy.device,
                info.parameters,
                info.trainable,
            )
            return {"type": "hello", "schema": SCHEMA, "info": to_frame(info)}
        return answers.error(
            f"the coordinator speaks schema {frame.get('schema')}, the learner {SCHEMA}",
            "install one version of rltui for both",
            fatal=True,
        )

    def _rehearse(self, _: Frame) -> Frame:
        try:
            return {"type": "result", "result": to_frame(self._learner.rehearse())}
        except Exception as error:
            if not answers.out_of_memory(error):
                raise
            return answers.does_not_fit(self._learner.settings)

    def _anchor(self, frame: Frame) -> Frame:
        updates = [[from_frame(entry, Sequence) for entry in part] for part in frame["updates"]]
        result = self._learner.anchor(updates)
        self._give_back()
        return {"type": "result", "result": to_frame(result)}

    def _batch(self, frame: Frame) -> Frame:
        sequences = [from_frame(entry, Sequence) for entry in frame["sequences"]]
        result: StepResult = self._learner.step(int(frame["step"]), sequences)
        self._give_back()
        return {"type": "result", "result": to_frame(result)}

    def _give_back(self) -> None:
        """What torch keeps of a pass for the next one, to the engine that wakes on the same GPU."""
        if self._learner.settings.shares_gpu and self._learner.policy.device.type == "cuda":
            torch.cuda.empty_cache()

    def _sync(self, frame: Frame) -> Frame:
        started = time.perf_counter()
        policy, folder = self._learner.policy, Path(frame["path"])
        adapter = frame.get("mode") == "lora"
        written = checkpoint.write_adapter(policy, folder) if adapter else policy.export(folder)
        gap = 0.0 if adapter else policy.rounding_gap
        return answers.result(bytes=written, seconds=time.perf_counter() - started, rounding_gap=gap)

    def _layout(self, _: Frame) -> Frame:
        from trainer.learner.sending import Sender  # which imports vLLM

        self._sender = Sender(self._learner.policy)
        return answers.result(**self._sender.layout())

    def _connect(self, frame: Frame) -> Frame:
        self._sender.connect(frame["way"], frame["address"], int(frame["port"]), int(frame["world_size"]))
        return answers.result()

    def _send(self, _: Frame) -> Frame:
        policy, update = self._learner.policy, self._sender.send()
        written = sum(shape.numel() for shape in policy.shapes.values()) * policy.dtype.itemsize
        return answers.result(bytes=written, rounding_gap=policy.rounding_gap, update=update)

    def _checkpoint(self, frame: Frame) -> Frame:
        started = time.perf_counter()
        written = checkpoint.write(
            self._learner, Path(frame["path"]), frame["state"], optimizer=bool(frame.get("optimizer", True))
        )
        return answers.result(bytes=written, seconds=time.perf_counter() - started)

    def _set(self, frame: Frame) -> Frame:
        self._learner.set(frame["values"])
        return answers.result()
