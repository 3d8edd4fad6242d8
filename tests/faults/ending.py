"""Whether an attempt that met certain faults ended as it may: with a result, or failed with its true cause."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

CODES = {"succeeded": 0, "cancelled": 130, "failed": 3}
# Words of the record that a fault may end an attempt with.
CAUSES: dict[str, tuple[str, ...]] = {
    "kill:learner": ("learner_down", "learner_failed"),
    "kill:inference": ("engine_down", "engine_failed", "sync_failed", "weight_sync", "too_many_excluded"),
    "kill:core": ("engine_down", "engine_failed", "sync_failed", "weight_sync", "too_many_excluded"),
    "kill:reference": ("reference_down", "learner_down", "learner_failed"),
    "kill:taskapp": ("task_app_down",),
    "app": ("task_app_rejected", "task_app_failing", "too_many_excluded"),
    "judge": ("judge_auth", "judge_route", "judge_request", "too_many_excluded", "task_app_failing"),
    "stop": ("too_many_excluded", "task_app_failing", "task_app_down"),
    "disk_full": ("disk_full",),
    "readonly": ("run_dir", "learner_failed"),
    "shm_full": ("disk_full", "learner_failed", "engine_failed", "engine_down"),
}


def wrong_end(met: Sequence[str], code: int | None, status: dict[str, Any], said: str) -> Iterator[str]:
    """A sentence for each thing that is wrong.

    Args:
        met: kinds of faults.
        code: the exit status; None: the attempt was no child of ours.
        said: all that it printed.
    """
    state, error = status["state"], status["error"] or {}
    if state not in CODES:
        told = "read-only" in said.lower() or "cannot be written" in said
        if not ("readonly:run" in met and told and code != 0):  # it has no way to write its end, and says so
            yield f"it ended with {code}, and its state is {state}: {said[-800:]}"
        return
    if code not in (None, CODES[state]) and not (state == "failed" and code == 2):
        yield f"it is {state} and ended with {code}"
    if state == "cancelled" and "sighup" not in met:
        yield "it was cancelled, and nobody asked for it"
    if state == "failed":
        allowed = [c for kind in met for c in CAUSES.get(kind, CAUSES.get(kind.partition(":")[0], ()))]
        if error["code"] not in allowed:
            yield f"it failed by {error}"
        elif not error["message"] or not error["hint"]:
            yield f"it failed without a cause or advice: {error}"
