"""Who waits for whom, what a step's time goes to, and what the machine does: the Pipeline tab as data. Pure.

The screen and `rltui pipeline --json` both show this object. Shares are of the time of the last WINDOW steps.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from rltui.doctor.record import Record
from rltui.model.edges import EDGES
from rltui.model.metrics import MetricStore
from rltui.sources.base import TERMINAL
from rltui.words import batches

Json = dict[str, Any]

WINDOW = 20  # steps
LOOSE = 0.1  # nobody waits for more than this share of the time: balanced
STEP = "time/step"
# (name, metric, in words) of the parts of a step of the trainer, which follow one another; what is left is the rest
PARTS = (
    ("batch", "time/wait_for_batch", "waits for episodes"),
    ("straggler", "time/wait_for_straggler", "waits for a slow episode"),
    ("eval", "time/wait_for_eval", "waits for an evaluation"),
    ("update", "time/forward_backward", "forward and backward"),
    ("sync", "time/weight_sync", "weight sync"),
)
WAITS = {  # who, and what for
    "batch": ("trainer", "trainer waits for episodes"),
    "straggler": ("trainer", "trainer waits for a slow episode"),
    "eval": ("trainer", "trainer waits for an evaluation"),
    "sync": ("trainer", "weights are on their way"),
    "policy": ("rollouts", "rollouts wait for newer weights"),
    "judge": ("rollouts", "rollouts wait for the judge"),
    "task_app": ("rollouts", "rollouts wait for the task app"),
    "engine": ("rollouts", "rollouts wait for the engine"),
}
MEASURED = ("batch", "straggler", "eval", "sync", "policy", "judge")  # waits whose time is a metric
KEYS = {  # what shortens a wait, most likely first; the rules of the doctor name the same
    "batch": ("compute.topology.gpus_for_vllm", "rollout.max_concurrent_rollouts", "training.max_lag"),
    "straggler": ("rollout.timeout_s", "training.max_lag"),
    "eval": ("evaluation.every_n_iters", "evaluation.instances"),
    "sync": ("training.weight_sync_interval", "training.weight_sync.direct"),
    "policy": ("training.max_lag", "compute.topology.gpus_for_training", "training.micro_batch_tokens"),
    "judge": ("judge.options.max_concurrency", "judge.timeout_s", "judge.options.model"),
}
BOUND = {
    "batch": ("inference-bound", "the trainer waits {} of the time for episodes"),
    "straggler": ("inference-bound", "the trainer waits {} of the time for one slow episode"),
    "eval": ("evaluation-bound", "the trainer waits {} of the time for an evaluation"),
    "sync": ("sync-bound", "weights are on their way {} of the time"),
    "policy": ("trainer-bound", "episodes are held back {} of the time until the trainer has caught up"),
    "judge": ("judge-bound", "all episodes in flight are with the judge {} of the time"),
}


def pipeline_view(
    status: Mapping[str, Any] | None, metrics: MetricStore, lags: Sequence[tuple[int, int]], now: float
) -> Json:
    """`lags`: (lag, episodes) of recent episodes; `now`: epoch seconds. What is not known is null."""
    status = dict(status or {})
    record = Record(series=metrics.series, step=metrics.step, status=status)
    live = status.get("state") not in TERMINAL
    pipeline = status.get("pipeline") or {}
    steps = min(WINDOW, record.count(STEP))
    shares = {what: _share(record, what) for what in MEASURED}
    return {
        "state": status.get("state"),
        "step": status.get("step"),
        "iteration": status.get("iteration"),
        "steps": steps,
        "bound": _bound(shares, steps, pipeline if live else {}),
        **_services(record, status, live),
        "rollouts": _rollouts(record, pipeline, live),
        "queue": {"ready": pipeline.get("ready"), "need": pipeline.get("need")} if live else {},
        "trainer": _trainer(record, pipeline, live),
        "sync": {
            "state": pipeline.get("sync") if live else None,
            "version": status.get("weight_version"),
            "seconds": _mean(record, "time/weight_sync"),
        },
        "waits": _waits(record, status.get("waiting") if live else None, shares, now),
        "split": split(record),
        "lag": {
            **{name: (status.get("lag") or {}).get(name) for name in ("mean", "max", "limit")},
            "counts": [list(pair) for pair in lags],
            "dropped": record.last("off_policy/dropped"),
        },
        "machine": _machine(record, pipeline),
    }


def split(record: Record) -> list[Json]:
    """What a step of the trainer is made of, in seconds a step; the shares add up to 1."""
    whole = dict(record.within(STEP, WINDOW))
    total = sum(whole.values())
    if not whole or total <= 0:
        return []
    parts: list[Json] = []
    for name, metric, words in PARTS:
        spent = sum(y for x, y in record.within(metric, WINDOW) if x in whole)
        parts.append({"name": name, "words": words, "seconds": spent / len(whole), "share": spent / total})
    known: float = sum(part["share"] for part in parts)
    if known > 1:  # clocks of two processes: never more than the whole
        parts = [{**part, "share": part["share"] / known} for part in parts]
        known = 1.0
    rest = {"name": "rest", "words": "the rest of the update", "seconds": (1 - known) * total / len(whole)}
    return [*parts, {**rest, "share": 1 - known}]


def percents(shares: Sequence[float]) -> list[int]:
    """Whole percents that add up to 100, by the largest remainders."""
    exact = [100 * share for share in shares]
    found = [int(value) for value in exact]
    order = sorted(range(len(exact)), key=lambda i: found[i] - exact[i])
    for i in order[: max(0, round(sum(exact)) - sum(found))]:
        found[i] += 1
    return found


def _bound(shares: Mapping[str, float | None], steps: int, queue: Mapping[str, Any]) -> Json | None:
    """Where the limit is, in words; None: before the first step. `queue`: {ready, need} of a live run."""
    known = {what: share for what, share in shares.items() if share is not None}
    if not steps or not known:
        return None
    what = max(known, key=lambda name: known[name])
    share, judge = known[what], known.get("judge", 0.0)
    if share < LOOSE:
        text = f"nobody waits for more than {_percent(share)} of the time"
        return {"word": "balanced", "text": text, "on": None, "share": share, "keys": []}
    if what == "batch" and judge >= LOOSE and judge > share / 2:
        what, share = "judge", judge  # the episodes are late because their judgements are
    held = known.get("policy", 0.0)
    if min(known.get("batch", 0.0), held) >= 0.25:
        waits = f"the trainer waits {_percent(known['batch'])} of the time for episodes"
        text = f"{waits}, rollouts {_percent(held)} for newer weights; a larger max_lag lets both work at once"
        return {"word": "taking turns", "text": text, "on": what, "share": share, "keys": ["training.max_lag"]}
    ready, need = queue.get("ready") or 0, queue.get("need") or 0
    if what in ("batch", "straggler") and need and ready >= 2 * need:  # what was waited for has come since then
        text = f"{batches(ready, need)} wait for the trainer, which waited {_percent(share)} of the time before"
        return {"word": "trainer-bound", "text": text, "on": "policy", "share": share, "keys": list(KEYS["policy"])}
    word, text = BOUND[what]
    return {"word": word, "text": text.format(_percent(share)), "on": what, "share": share, "keys": list(KEYS[what])}


def _percent(share: float) -> str:
    return f"{100 * share:.0f} %"


def _share(record: Record, what: str) -> float | None:
    metric = "time/weight_sync" if what == "sync" else f"time/wait_for_{what}"
    return record.share(metric, STEP, WINDOW)


def _mean(record: Record, name: str) -> float | None:
    values = [y for _, y in record.within(name, WINDOW)]
    return sum(values) / len(values) if values else None


def _busy(record: Record, idle: str) -> float | None:
    """1 - `idle`, each step weighted by how long it took."""
    seconds = dict(record.within(STEP, WINDOW))
    both = [(y, seconds[x]) for x, y in record.within(idle, WINDOW) if x in seconds]
    total = sum(weight for _, weight in both)
    return 1 - sum(y * weight for y, weight in both) / total if total > 0 else None


def _services(record: Record, status: Mapping[str, Any], live: bool) -> Json:
    """Who answers the episodes of a run that goes on: the engines, the gateway before them, the judge if one is on."""
    if not live:
        return {"engines": [], "gateway": None, "judge": None}
    pipeline = status.get("pipeline") or {}
    gateway = status.get("gateway")
    judge = {name: pipeline.get(f"judge_{name}") for name in ("in_flight", "queued", "oldest_s")}
    judged = any(judge.values()) or any(name.startswith("judge/") for name in record.series)
    return {
        "engines": [dict(engine) for engine in status.get("engines") or ()],
        "gateway": {**gateway, "calls": pipeline.get("generating") or 0} if gateway else None,
        "judge": judge if judged else None,
    }


def _rollouts(record: Record, pipeline: Mapping[str, Any], live: bool) -> Json:
    now: Json = {}
    if live and pipeline.get("max"):
        running, generating, judging = (pipeline.get(name) or 0 for name in ("running", "generating", "judging"))
        app = max(0, running - generating - judging)
        now = {"running": running, "max": pipeline["max"], "generating": generating, "judging": judging, "app": app}
    rates = {
        "tokens_per_sec": _mean(record, "throughput/gen_tokens_per_sec"),
        "episodes_per_min": _mean(record, "throughput/episodes_per_min"),
    }
    return {**now, "busy": _busy(record, "rollouter/idle_ratio"), **rates}


def _trainer(record: Record, pipeline: Mapping[str, Any], live: bool) -> Json:
    return {
        "state": pipeline.get("learner") if live else None,
        "busy": _busy(record, "trainer/idle_ratio"),
        "tokens_per_sec": _mean(record, "throughput/train_tokens_per_sec"),
        "step_s": _mean(record, STEP),
    }


def _waits(record: Record, present: Any, shares: Mapping[str, float | None], now: float) -> list[Json]:
    """The present wait first, then those of the last steps, longest first; what took no time is left out."""
    waiting = present if isinstance(present, dict) else {}
    here = waiting.get("for")
    found = []
    for what in dict.fromkeys([*([here] if here in WAITS else []), *sorted(MEASURED, key=lambda w: -(shares[w] or 0))]):
        share, is_now = shares.get(what), what == here
        if not is_now and not (share and share >= 0.0005):
            continue
        who, words = WAITS[what]
        since = waiting.get("since") if is_now else None
        metric = "time/weight_sync" if what == "sync" else f"time/wait_for_{what}"
        found.append(
            {
                "who": who,
                "for": what,
                "words": words,
                "now": is_now,
                "on": waiting.get("on") if is_now else None,
                "since": since,
                "seconds": max(0.0, now - since) if since is not None else None,
                "share": share,
                "step_s": _mean(record, metric) if what in MEASURED else None,
                "limit": EDGES[what][1],
                "keys": list(KEYS.get(what, EDGES[what][1:])),
            }
        )
    return found


def _machine(record: Record, pipeline: Mapping[str, Any]) -> Json:
    names = ("gpu_util", "gpu_mem", "alloc_retries", "cpu", "rss", "disk_free_gib")
    return {
        "gpus": [dict(gpu) for gpu in pipeline.get("gpus") or ()],
        **{name: record.last(f"system/{name}") for name in names},
    }
