"""Whether an attempt that met certain faults ended as it may: with a result, or failed with its true cause."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Sequence
from typing import Any

CODES = {"succeeded": 0, "cancelled": 130, "failed": 3}
KILLED = r"killed by signal 9"
# What the fault that was met last may end an attempt with: words of the record, and what the message says then.
CAUSES: dict[str, tuple[tuple[str, str], ...]] = {
    "kill:learner": (("learner_down", KILLED),),
    "kill:reference": (("reference_down", KILLED),),
    "kill:taskapp": (("task_app_down", KILLED),),
    "kill:inference": (("engine_down", f"could not load.*{KILLED}|{KILLED}.* is given up"),),
    "kill:core": (("engine_down", "is given up"),),
    "app:401": (("task_app_rejected", "ENVIRONMENT_API_KEY"),),
    "app:404": (("task_app_rejected", "404"),),
    "app:422": (("task_app_rejected", "refused"),),
    "app:away_redirect": (("task_app_rejected", "redirects to another address"),),
    "app:gone": (("task_app_down", "did not come back"),),
    "judge:401": (("judge_auth", "401"),),
    "judge:404": (("judge_route", "404"),),
    "judge:away_redirect": (("judge_route", "redirects to another address"),),
    "disk_full": (("disk_full", "space"),),
    "readonly": (("run_dir", "cannot be written"), ("learner_failed", "[Rr]ead-only")),
    "shm_full": (("disk_full", "space"), ("learner_failed", "space"), ("engine_failed", "space")),
}
# Episodes are lost by these, each after its tries: they may be too many for an iteration, of which one reason is told.
EXCLUDED = {
    "app:500|app:503|app:429": "task app answered",
    "app:400": "task app refused",
    "app:hang|app:drip|stop:.*": "no answer within",
    "app:drop|stop:taskapp|app:gone": "task app answered|not JSON|no answer",
    "app:bad_json": "not JSON",
    "app:large": "too large",
    "app:shape": "none of the known fields",
    "app:nan": "the reward at",
    "app:cid": "belongs to episode",
    "judge:.*|stop:coordinator": "the judge gave no score",
    "kill:inference|kill:core": "the inference engine failed|no answer within|task app answered|failed with",
    "stop:inference": "the inference engine failed|task app answered|failed with",
}
PASSING = re.compile(r"clock|second|hangup|kill:viewer|steer|app:redirect|judge:redirect")  # they end nothing


def wrong_end(
    met: Sequence[str], code: int | None, status: dict[str, Any], said: str, *, asked: bool = False
) -> Iterator[str]:
    """A sentence for each thing that is wrong.

    Args:
        met: kinds of faults.
        code: the exit status; None: the attempt was no child of ours.
        said: all that it printed.
        asked: whether a stop was asked.
    """
    if "Traceback" in words_for_a_user(said):
        yield f"a traceback reached the user: {said[-1500:]}"
    state, error = status["state"], status["error"] or {}
    if state not in CODES:
        told = "read-only" in said.lower() or "cannot be written" in said
        if not ("readonly:run" in met and told and code != 0):  # it has no way to write its end, and says so
            yield f"it ended with {code}, and its state is {state}: {said[-800:]}"
        return
    if code not in (None, CODES[state]) and not (state == "failed" and code == 2):
        yield f"it is {state} and ended with {code}"
    if state == "cancelled" and "sighup" not in met and not asked:
        yield "it was cancelled, and nobody asked for it"
    if status["end_reason"] == "max_minutes":
        yield f"it ended for its time was up: {status['budget_s']} s left, {status['elapsed_s']} s gone"
    if state == "failed":
        if not _is_true(met, error["code"], error["message"]):
            yield f"it failed by {error}"
        elif not error["message"] or not error["hint"]:
            yield f"it failed without a cause or advice: {error}"
        elif "going on" in error["message"] and status["last_checkpoint"] and "--resume" not in error["hint"]:
            yield f"it does not say that it can go on: {error}"


def _is_true(met: Sequence[str], code: str, message: str) -> bool:
    if code == "too_many_excluded":
        faults = [words for kinds, words in EXCLUDED.items() if any(re.fullmatch(kinds, kind) for kind in met)]
        return any(re.search(words, message) for words in faults)
    last = next((kind for kind in reversed(met) if not PASSING.match(kind)), "")
    causes = CAUSES.get(last, CAUSES.get(last.partition(":")[0], ()))
    return any(code == cause and re.search(words, message, re.DOTALL) for cause, words in causes)


def words_for_a_user(said: str) -> str:
    """Without the `evidence` of its lines of JSON: the end of a log, which is another program's text, and a child's
    traceback as it may be. No command shows it but with --json."""
    kept = []
    for line in said.splitlines():
        try:
            told = json.loads(line)
        except ValueError:
            told = None
        if isinstance(told, dict):
            told.pop("evidence", None)
        kept.append(line if told is None else json.dumps(told))
    return "\n".join(kept)
