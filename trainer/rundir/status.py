"""The present of a run: the document of status.json (WIRE 5.4)."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import msgspec

from trainer.rundir.jsonl import Json
from trainer.rundir.layout import SCHEMA

MAX_LATEST = 200
MAX_WARNINGS = 50
MAX_EVIDENCE = 2_000


class Waiting(msgspec.Struct, kw_only=True):
    for_: str = msgspec.field(name="for")  # batch, policy, judge, straggler, eval, engine, task_app, sync
    on: str  # words: "3 task app replies"
    since: float


class Paused(msgspec.Struct, kw_only=True):
    reason: str  # request, disk_full, task_app_down, engine_down
    by: Any = None
    since: float


class Totals(msgspec.Struct, kw_only=True):
    steps: int = 0
    iterations: int = 0
    epochs: int = 0
    episodes: int = 0


class Episodes(msgspec.Struct, kw_only=True):
    accepted: int = 0
    excluded: int = 0
    running: int = 0
    groups_dropped: int = 0


class Gpu(msgspec.Struct, kw_only=True):
    index: int
    role: str
    util: float | None = None  # 0 to 1
    used_bytes: int | None = None
    total_bytes: int | None = None


class Pipeline(msgspec.Struct, kw_only=True):
    running: int = 0
    max: int = 0
    generating: int = 0
    judging: int = 0
    ready: int = 0
    need: int = 0
    judge_in_flight: int = 0
    judge_queued: int = 0
    judge_oldest_s: float | None = None
    sync: str = "idle"  # idle, draining, updating
    learner: str = "idle"  # idle, busy, waiting
    gpus: list[Gpu] = []


class Lag(msgspec.Struct, kw_only=True):
    mean: float | None = None
    max: int | None = None
    limit: int | None = None


class Child(msgspec.Struct, kw_only=True):
    role: str  # learner, inference, taskapp
    rank: int = 0
    pid: int
    start_time: int
    gpu: int | None = None
    log: str | None = None
    host: str | msgspec.UnsetType = msgspec.UNSET  # of one on another node, where `start_time` is 0


class Reached(msgspec.Struct, kw_only=True):
    """A checkpoint as status.json names it."""

    step: int
    iteration: int
    reward: float | None = None
    path: str


class RunError(msgspec.Struct, kw_only=True):
    code: str
    message: str  # one sentence
    hint: str  # what to do
    evidence: str | None = None


class Warned(msgspec.Struct, kw_only=True):
    code: str
    text: str
    count: int = 1
    last_at: str | None = None


class RunStatus(msgspec.Struct, kw_only=True):
    """status.json, whole. A viewer reads every field as one that may be missing (WIRE 5.4)."""

    schema: int = SCHEMA
    job_id: str
    label: str
    attempt: int
    state: str = "starting"  # queued, starting, running, paused, stopping, succeeded, failed, cancelled
    phase: str = "starting"  # queued, starting, training, evaluating, checkpointing, waiting, paused, stopping, done
    end_reason: str | None = None  # completed, max_minutes, stopped, killed, preempted, error
    waiting: Waiting | None = None
    paused: Paused | None = None
    step: int = 0
    iteration: int = 0
    epoch: int = 0
    totals: Totals = msgspec.field(default_factory=Totals)
    episodes: Episodes = msgspec.field(default_factory=Episodes)
    pipeline: Pipeline = msgspec.field(default_factory=Pipeline)
    weight_version: int = 0
    weight_updates: int = 0
    lag: Lag = msgspec.field(default_factory=Lag)
    pid: int
    start_time: int
    pgid: int
    host: str
    boot_id: str
    children: list[Child] = []
    beat: int = 0
    heartbeat: float = 0.0
    created_at: str
    started_at: str | None = None
    updated_at: str | None = None
    finished_at: str | None = None
    elapsed_s: float = 0.0  # all attempts together
    eta_s: float | None = None
    budget_s: float | None = None
    gateway: Json | None = None  # {url, public_url}
    engines: list[Json] = []  # [{url, kind, version, state}]
    task_app: Json | None = None  # {url, state}
    best: Reached | None = None
    last_checkpoint: Reached | None = None
    checkpoints_dir: str = "checkpoints"
    latest: dict[str, float] = {}
    error: RunError | None = None
    warnings: list[Warned] = []
    results: Json | None = None


_FIELDS = {field.encode_name for field in msgspec.structs.fields(RunStatus)}
_REPLACED_WHOLE = {"waiting", "paused", "best", "last_checkpoint", "error", "results"}


def begun(last: RunStatus, blank: RunStatus) -> RunStatus:
    """The document of the last attempt, freed of what ended with it, as that of the attempt that `blank` names."""
    ended = {"state", "phase", "end_reason", "waiting", "paused", "pipeline", "children", "finished_at"}
    ended |= {"eta_s", "error", "results", "gateway", "engines", "task_app", "lag"}
    own = {"job_id", "label", "attempt", "pid", "start_time", "pgid", "host", "boot_id"}
    status = msgspec.structs.replace(
        last,
        schema=SCHEMA,
        started_at=last.started_at or blank.created_at,
        **{name: getattr(blank, name) for name in ended | own},
    )
    status.episodes.running = 0
    return status


def merged(status: RunStatus, changes: Mapping[str, Any]) -> RunStatus:
    """`status` with fields changed: mappings merge into a part that is there, all else is replaced.

    Values may be the structs above or plain mappings. TypeError: no such field; ValueError: a value of a
    wrong type.
    """
    unknown = sorted(changes.keys() - _FIELDS)
    if unknown:
        raise TypeError(f"status has no field {', '.join(unknown)}")
    document = msgspec.to_builtins(status)
    for name, value in changes.items():
        value = msgspec.to_builtins(value, enc_hook=_number)
        old = document[name]
        if isinstance(old, dict) and isinstance(value, dict) and name not in _REPLACED_WHOLE:
            old.update(value)
        else:
            document[name] = value
    document["warnings"] = document["warnings"][-MAX_WARNINGS:]
    if document["error"] and document["error"].get("evidence"):
        document["error"]["evidence"] = document["error"]["evidence"][:MAX_EVIDENCE]
    try:
        return msgspec.convert(document, RunStatus)
    except msgspec.ValidationError as error:
        raise ValueError(f"status: {error}") from error


def warned(known: Sequence[Warned], code: str, text: str, at: str) -> tuple[list[Warned], bool]:
    """`known` with one more warning, or one counted again; whether it is new. `at`: ISO 8601."""
    for place, entry in enumerate(known):
        if (entry.code, entry.text) == (code, text):
            again = Warned(code=code, text=text, count=entry.count + 1, last_at=at)
            return [*known[:place], again, *known[place + 1 :]], False
    return [*known, Warned(code=code, text=text, last_at=at)], True


def with_latest(status: RunStatus, values: Mapping[str, float]) -> None:
    """Keep the newest value of each metric, at most 200 names, those longest without news going first."""
    for name, value in values.items():
        status.latest.pop(name, None)
        status.latest[name] = value
    for name in list(status.latest)[: max(0, len(status.latest) - MAX_LATEST)]:
        del status.latest[name]


def _number(value: Any) -> Any:
    if hasattr(value, "item"):
        return value.item()
    raise TypeError(f"{type(value).__name__} does not belong in status")
