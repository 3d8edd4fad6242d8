"""How an attempt of a synthetic run ends."""

from __future__ import annotations

import os

from trainer.rundir.writer import RunWriter

STALLED_S = 900  # that a stalled run has waited


def finish(writer: RunWriter, end: str, step: int, now: float) -> None:
    """The last records of an attempt; of a kind of run that never ended there are none.

    Args:
        step: its last one.
        now: epoch seconds; a stalled run waits since `STALLED_S` before.
    """
    if end in ("healthy", "collapsed"):
        writer.event("rl.train.completed", "Training completed", step=step)
        writer.event("rl.job.completed", "Job completed", step=step)
        writer.status(state="succeeded", phase="done", end_reason="completed", results={"status": "succeeded"})
    elif end == "failed":
        failure = {
            "code": "http_error",
            "message": "The task app answered 500 to the last 8 episodes.",
            "hint": "Look at its log, then go on with --resume.",
        }
        writer.event("rl.train.failed", failure["message"], step=step, level="error", **_data(failure))
        writer.event("rl.job.failed", failure["message"], step=step, level="error", **_data(failure))
        writer.status(state="failed", phase="done", end_reason="error", error=failure)
    elif end == "stalled":
        waiting = {"for": "task_app", "on": "32 task app replies", "since": now - STALLED_S}
        writer.event(
            "rl.pipeline.backpressure",
            "Waiting for 32 task app replies",
            step=step,
            level="warning",
            reason="task_app",
            seconds=STALLED_S,
        )
        writer.status(phase="waiting", waiting=waiting, pipeline={"running": 32, "need": 32})
        writer.beat()  # it is alive


def _data(failure: dict[str, str]) -> dict[str, str]:
    return {"code": failure["code"], "error": failure["message"], "hint": failure["hint"]}


def tear(writer: RunWriter) -> None:
    """Cut the last line of each file in two, as a power cut does."""
    rollouts = sorted(writer.paths.rollouts.iterdir())
    for path in [writer.paths.events, writer.paths.metrics, *rollouts]:
        if path.stat().st_size > 20:
            os.truncate(path, path.stat().st_size - 20)
