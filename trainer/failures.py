"""What ended a run, as the one sentence and the advice of its record."""

from __future__ import annotations

from pathlib import Path

from trainer.errors import EXIT_CONFIG, RunError, disk_full
from trainer.inference.engine import EngineError
from trainer.judge.errors import JudgeMisconfigured
from trainer.learner.client import LearnerError, LearnerLost
from trainer.outage import TaskAppGone
from trainer.rollout.groups import TooManyExcluded
from trainer.rollout.player import ModelUnfit, TaskAppFailing
from trainer.rundir.checkpoints import list_checkpoints
from trainer.taskapp.errors import TaskAppRejected
from trainer.weights.base import WeightSyncError, WeightSyncMismatch

EMPTY_LIMIT = 20  # iterations in a row of which nothing can be learned


def run_error(error: Exception, *, root: Path, serves_task_app: bool) -> RunError | None:
    """None: not of a kind that is known here.

    Args:
        root: the run's folder.
        serves_task_app: it is served by the run, so that its log is there.
    """
    match error:
        case TaskAppRejected():
            return RunError("task_app_rejected", error.message, error.hint, error.evidence)
        case TaskAppFailing():
            where = "see logs/taskapp.log" if serves_task_app else "see the log of the task app"
            return RunError("task_app_failing", str(error), f"mend the task app; {where}")
        case JudgeMisconfigured():
            return misconfigured(error)
        case TaskAppGone():
            return RunError("task_app_down", str(error), f"start the task app again, then {way_on(root)}")
        case ModelUnfit():
            return RunError("no_tool_parser", str(error), exit_code=EXIT_CONFIG)
        case TooManyExcluded():
            return RunError("too_many_excluded", str(error), "mend the cause, or raise that key")
        case LearnerError() if error.code == "disk_full":
            return disk_full(root, error)
        case LearnerLost():
            return RunError(error.code, str(error), f"{error.hint}; {way_on(root)}", error.evidence)
        case LearnerError():
            return RunError(error.code, str(error), error.hint, error.evidence)
        case WeightSyncMismatch():
            kept = list_checkpoints(root / "checkpoints")
            then = (
                "rltui train --resume goes on from the last checkpoint"
                if kept
                else ("start the run anew: it has no checkpoint (checkpoint.every_n_iters keeps some)")
            )
            return RunError(error.code, str(error), f"{then}; {error.hint}")
        case WeightSyncError():
            return RunError(error.code, str(error), error.hint)
        case EngineError():
            return RunError("engine_failed", str(error), f"see logs/inference-0.log; {way_on(root)}")
    return None


def way_on(root: Path) -> str:
    """What is left to do once the cause of an end is mended. `root`: the run's folder."""
    if list_checkpoints(root / "checkpoints"):
        return "go on with rltui train --resume; what was learned is kept"
    return "start the run anew: it has no checkpoint yet"


def misconfigured(error: JudgeMisconfigured) -> RunError:
    """The config or the environment must mend it: another key, model, address or rubric."""
    return RunError(error.code, error.message, error.hint, error.evidence, exit_code=EXIT_CONFIG)


def nothing_to_learn(iteration: int, last_reward: float) -> RunError:
    """Iterations up to this one carried no gradient. `last_reward`: mean of the last."""
    return RunError(
        "no_gradient",
        f"iterations {iteration - EMPTY_LIMIT + 1} to {iteration} taught nothing: no episode of {EMPTY_LIMIT} "
        f"iterations in a row carries gradient (mean reward {last_reward:.3f})",
        "in each group all rewards are equal, or all episodes are masked: choose tasks that the policy sometimes "
        "solves, raise training.group_size or rollout.max_refill_groups, or see batch/trainable_frac",
    )
