"""What kinds the fields of a run's records are of. A record may be damaged, or be written by another version: a field
of another kind is left out, as if it had not been written, so that no screen has to doubt what it shows. Pure.
"""

from __future__ import annotations

from enum import Enum
from typing import Any

Json = dict[str, Any]


class Kind(Enum):
    NUMBER = "a finite number that a float holds exactly enough"
    WORD = "text"
    NAME = "a word of ours, which is shown as it stands"


# A kind, an object of such (fields that are not named may be anything), or a list of one such.
Shape = Kind | dict[str, "Shape"] | list["Shape"]

NUMBER, WORD, NAME = Kind.NUMBER, Kind.WORD, Kind.NAME
MOST = 1e18  # nothing that is counted or timed is beyond
NAME_CHARS = 40
_MISFIT = object()

_REACHED: Shape = {"step": NUMBER, "iteration": NUMBER, "reward": NUMBER, "path": WORD}
STATUS: Json = {
    **dict.fromkeys(("schema", "attempt", "step", "iteration", "epoch", "weight_version", "weight_updates"), NUMBER),
    **dict.fromkeys(("pid", "start_time", "pgid", "beat", "heartbeat", "elapsed_s", "eta_s", "budget_s"), NUMBER),
    **dict.fromkeys(("job_id", "label", "host", "boot_id", "checkpoints_dir"), WORD),
    **dict.fromkeys(("state", "phase", "end_reason"), NAME),
    **dict.fromkeys(("created_at", "started_at", "updated_at", "finished_at"), WORD),
    "waiting": {"for": WORD, "on": WORD, "since": NUMBER},
    "paused": {
        "reason": WORD,
        "by": {**dict.fromkeys(("user", "host", "client"), WORD), "pid": NUMBER},
        "since": NUMBER,
    },
    "totals": dict.fromkeys(("steps", "iterations", "epochs", "episodes"), NUMBER),
    "episodes": dict.fromkeys(("accepted", "excluded", "running", "groups_dropped"), NUMBER),
    "pipeline": {
        **dict.fromkeys(("running", "max", "generating", "judging", "ready", "need"), NUMBER),
        **dict.fromkeys(("judge_in_flight", "judge_queued", "judge_oldest_s"), NUMBER),
        **dict.fromkeys(("sync", "learner"), NAME),
        "gpus": [{**dict.fromkeys(("index", "util", "used_bytes", "total_bytes"), NUMBER), "role": WORD}],
    },
    "lag": dict.fromkeys(("mean", "max", "limit"), NUMBER),
    "children": [
        {**dict.fromkeys(("rank", "pid", "start_time", "gpu"), NUMBER), "role": WORD, "log": WORD, "host": WORD}
    ],
    "gateway": {"url": WORD, "public_url": WORD},
    "engines": [{**dict.fromkeys(("url", "kind", "state"), WORD), "version": NUMBER}],
    "task_app": {"url": WORD, "state": WORD},
    "best": _REACHED,
    "last_checkpoint": _REACHED,
    "latest": {},
    "error": {"code": WORD, "message": WORD, "hint": WORD, "evidence": WORD},
    "warnings": [{"code": WORD, "text": WORD, "count": NUMBER}],
    "results": {},
}
EVENT: Json = {
    **dict.fromkeys(("seq", "attempt", "step"), NUMBER),
    **dict.fromkeys(("type", "level", "message", "created_at"), WORD),
    "data": {"action": WORD, "control_id": WORD, "from_step": NUMBER, "reason": WORD},
}
GROUP: Json = {
    **dict.fromkeys(("attempt", "step", "iteration", "group", "seed", "mean", "std", "t"), NUMBER),
    "split": WORD,
    "members": [NUMBER],
    "rewards": [NUMBER],
}


def fitting(record: Json, shape: Json) -> Json:
    """`record` without what is not of its kind: fields, and objects in lists. A null is a missing field."""
    found = _fitting(record, shape)
    return found if isinstance(found, dict) else {}


def _fitting(value: Any, shape: Shape) -> Any:
    if value is None:
        return None
    if shape is NUMBER:
        return value if type(value) in (int, float) and -MOST < value < MOST else _MISFIT
    if shape is WORD:
        return value if isinstance(value, str) else _MISFIT
    if shape is NAME:
        fits = isinstance(value, str) and len(value) <= NAME_CHARS and value.isascii() and value.isprintable()
        return value if fits else _MISFIT
    if isinstance(shape, list):
        if not isinstance(value, list):
            return _MISFIT
        items = [_fitting(item, shape[0]) for item in value]
        if isinstance(shape[0], Kind):  # each keeps its place: rewards stand by member
            return [None if item is _MISFIT else item for item in items]
        return [item for item in items if item is not _MISFIT and item is not None]
    if not isinstance(value, dict) or not isinstance(shape, dict):
        return _MISFIT
    fields = {name: _fitting(item, shape[name]) if name in shape else item for name, item in value.items()}
    return {name: item for name, item in fields.items() if item is not _MISFIT}
