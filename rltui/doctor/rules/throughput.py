"""D29, D30, D34 and D35: who waits for whom, and whether anything goes on at all."""

from __future__ import annotations

from datetime import UTC, datetime
from time import localtime, strftime
from typing import Any

from rltui.doctor.maths import mean, median
from rltui.doctor.record import Json, Record
from rltui.doctor.rule import Bands, Reading, State, none, over, percent, rule, worst
from rltui.model.edges import EDGES
from rltui.words import duration

STEP = "time/step"


TURNS = " With training.max_lag 0 the two take turns."
SHARED = " Trainer and engine share what they compute on, so no other order would be faster."


def _take_turns(record: Record) -> bool:
    """Whether the one waits for the other by nature: then the longer wait alone speaks, and max_lag is the key."""
    return record.number("training.max_lag") == 0


def _first(key: str, keys: tuple[str, ...]) -> tuple[str, ...]:
    return (key, *(other for other in keys if other != key))


def _there(record: Record, keys: tuple[str, ...]) -> tuple[str, ...]:
    """On a CPU there are no GPUs to share out."""
    cpu = record.value("compute.topology.type") == "cpu"
    return tuple(key for key in keys if not (cpu and key.startswith("compute.topology.gpus_")))


@rule(
    "D29",
    "trainer waits",
    "Inference-bound: generation or the task app is the limit; or one slow episode, or an evaluation that holds "
    "syncs back.",
    ("compute.topology.gpus_for_vllm", "rollout.max_concurrent_rollouts", "training.max_lag"),
    metrics=("time/wait_for_batch", "trainer/idle_ratio", "time/wait_for_straggler", "time/wait_for_eval"),
    window="20 steps",
)
def inference_bound(record: Record, band: Bands) -> Reading:
    if record.count(STEP) < 5:
        return none(f"needs 5 steps, has {record.count(STEP)}")
    return worst(
        _waits(record, band, "batch", "batch", "episodes", inference_bound.keys),
        _waits(record, band, "straggler", "other", "one slow episode", ("rollout.timeout_s", "training.max_lag")),
        _waits(record, band, "eval", "other", "an evaluation", ("evaluation.every_n_iters", "evaluation.instances")),
    )


def _waits(record: Record, band: Bands, what: str, limit: str, words: str, keys: tuple[str, ...]) -> Reading | None:
    metric = f"time/wait_for_{what}"
    share = record.share(metric, STEP, int(band["window"]))
    if share is None:
        return None
    idle = record.recent("trainer/idle_ratio", int(band["window"]))
    told = f" It is idle {percent(mean(idle))} of the time." if idle and what == "batch" else ""
    state, turns = over(share, band[limit]), what == "batch" and _take_turns(record)
    if turns:
        told += TURNS
        keys = _first("training.max_lag", keys)
        held = record.share("time/wait_for_policy", STEP, int(band["window"])) or 0.0
        if held > share:
            state, told = State.OK, f"{told} The rollouts wait longer."
    return Reading(
        state,
        share,
        f"{percent(share)} of step",
        f"< {percent(band[limit])}",
        f"The trainer waits {percent(share)} of the step for {words}.{told}",
        metric=metric,
        keys=_there(record, keys),
    )


@rule(
    "D30",
    "rollouts wait",
    "Trainer-bound: episodes are held back until the trainer has caught up.",
    ("compute.topology.gpus_for_training", "training.micro_batch_tokens"),
    metrics=("time/wait_for_policy", "rollouter/idle_ratio"),
    window="20 steps",
)
def trainer_bound(record: Record, band: Bands) -> Reading:
    window = int(band["window"])
    held, idle = record.share("time/wait_for_policy", STEP, window), record.recent("rollouter/idle_ratio", window)
    if record.count(STEP) < 5 or held is None:
        return none(f"needs 5 steps, has {record.count(STEP)}")
    turns, keys, longer = "", _there(record, trainer_bound.keys), False
    if _take_turns(record):
        turns, keys = TURNS, _first("training.max_lag", keys)
        longer = (record.share("time/wait_for_batch", STEP, window) or 0.0) >= held
        shared = record.value("compute.topology.type") in ("cpu", "colocate")
        turns += SHARED if shared else " The trainer waits longer." if longer else ""
        longer |= shared
    parts = [
        Reading(
            State.OK if longer else over(held, band["held"]),
            held,
            f"{percent(held)} of step",
            f"< {percent(band['held'])}",
            f"Episodes are held back for {percent(held)} of the step.{turns}",
            keys=keys,
        )
    ]
    if idle:
        share = mean(idle)
        parts.append(
            Reading(
                State.OK if longer else over(share, band["idle"]),
                share,
                f"{percent(share)} idle",
                f"< {percent(band['idle'])}",
                f"Nothing generates for {percent(share)} of the time.{turns}",
                metric="rollouter/idle_ratio",
                keys=keys,
            )
        )
    return worst(*parts)


@rule(
    "D34",
    "standstill",
    "The run is stalled.",
    ("rollout.timeout_s", "judge.timeout_s", "inference.startup_timeout_s"),
    metrics=(STEP,),
    window="now",
    steady=1,
    by_step=False,
)
def stalled(record: Record, band: Bands) -> Reading:
    if record.part("state") != "running":
        return none("the run is not under way")
    last = _last_progress(record)
    if last is None:
        return none("nothing has happened yet")
    heartbeat = record.part("heartbeat")
    # The writer's own clock: that of a reader elsewhere may be off.
    now = heartbeat if isinstance(heartbeat, int | float) else record.now
    steps = record.recent(STEP, 20)
    limit = max(band["seconds"], band["steps"] * median(steps)) if steps else band["seconds"]
    quiet = max(0.0, now - last)
    want = f"< {duration(limit)}"
    if quiet <= limit:
        return Reading(State.OK, quiet, duration(quiet), want, f"The last sign of progress is {duration(quiet)} old.")
    told, keys = _who_waits(record)
    return Reading(State.ACT, quiet, duration(quiet), want, f"No progress for {duration(quiet)}: {told}.", keys=keys)


def _last_progress(record: Record) -> float | None:
    moved = [event for event in record.events[-50:] if not _stands(event)]
    found = [moment for event in moved if (moment := _epoch(event.get("created_at"))) is not None]
    if (step := record.times.last()) is not None:
        found.append(step[1])
    return max(found, default=None)


def _stands(event: Json) -> bool:
    """Whether it says that nothing moves, which is no sign of progress."""
    data = event.get("data")
    waiting = event.get("type") == "rl.phase" and isinstance(data, dict) and data.get("phase") == "waiting"
    return waiting or event.get("type") == "rl.pipeline.backpressure"


def _who_waits(record: Record) -> tuple[str, tuple[str, ...]]:
    waiting = record.part("waiting")
    if not isinstance(waiting, dict) or waiting.get("for") not in EDGES:
        return "nobody says what is waited for", ()
    words, key = EDGES[waiting["for"]]
    since = waiting.get("since")
    clock = f" since {strftime('%H:%M', localtime(since))}" if isinstance(since, int | float) else ""
    on = f", for {waiting['on']}" if waiting.get("on") else ""
    iteration, step = record.part("iteration"), record.part("step")
    place = f" (after step {step}, iteration {iteration})" if isinstance(step, int) else ""
    return f"{words}{on}{clock}{place}", (key,)


def _epoch(iso: Any) -> float | None:
    try:
        moment = datetime.fromisoformat(iso)
    except (TypeError, ValueError):
        return None
    return (moment if moment.tzinfo else moment.replace(tzinfo=UTC)).timestamp()


@rule(
    "D35",
    "coordinator",
    "The coordinator's process is gone. What it recorded stays, and its checkpoints: where there is one, `rltui train "
    "--resume RUN` goes on from the last.",
    (),
    window="3 beats",
    steady=1,
    by_step=False,
)
def alive(record: Record, band: Bands) -> Reading:
    state = record.part("state")
    if state is None:
        return none("there is no status yet")
    if record.part("error", "code") == "process_lost":
        told = str(record.part("error", "message") or "its process is gone")
        return Reading(State.ACT, None, "gone", "alive", f"{told[:1].upper()}{told[1:]}.")
    if record.status.get("silent"):
        return Reading(State.WATCH, None, "silent", "alive", "No sign of life for a minute.")
    over = state in ("succeeded", "failed", "cancelled")
    return Reading(State.OK, None, "ended" if over else "alive", "alive", f"The run is {state}.")
