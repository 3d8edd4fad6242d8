"""What the run does now, in lines: rollouts, trainer, weights, GPUs, and the last group that closed. Pure."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

from rltui.model.doing import waits
from rltui.sources.base import TERMINAL
from rltui.text import clean
from rltui.words import batches, duration, short
from trainer.rundir.layout import SCHEMA

if TYPE_CHECKING:
    from rltui.model.metrics import MetricStore

Line = tuple[str, str, str]  # name, text, style of the text
Status = Mapping[str, Any]
_GIB = 1 << 30
_GPU_LINES = 4


def now_lines(status: Status | None, metrics: MetricStore, groups: Sequence[Mapping[str, Any]]) -> list[Line]:
    """Most important first; what is not known is left out."""
    status = status or {}
    latest = metrics.latest
    pipeline = status.get("pipeline") or {}
    lines: list[Line] = []
    lines += cause_lines(status)
    if later := written_later(status):
        lines.append(("warning", later, "watch"))
    if status.get("state") not in TERMINAL and pipeline:
        lines += _pipeline(pipeline)
    if status.get("state") not in TERMINAL and (text := waits(status)):
        lines.append(("waits", text, "watch"))
    evaluated = metrics.get("eval/reward_mean")
    last = evaluated.last() if evaluated is not None else None
    if last is not None:
        lines.append(("eval", f"reward {short(last[1])} at step {last[0]:.0f}", "text"))
    idle = [
        f"{word} idle {100 * latest[name]:.0f} %"
        for word, name in (("trainer", "trainer/idle_ratio"), ("rollouts", "rollouter/idle_ratio"))
        if name in latest
    ]
    if idle:
        lines.append(("busy", ", ".join(idle), "text"))
    speed = [
        f"{short(latest[name])} {word}"
        for word, name in (
            ("tokens/s played", "throughput/gen_tokens_per_sec"),
            ("tokens/s trained", "throughput/train_tokens_per_sec"),
            ("samples/s", "throughput/samples_per_sec"),
        )
        if name in latest
    ]
    if speed:
        lines.append(("speed", ", ".join(speed), "text"))
    if "time/step" in latest:
        sync = f", of it weight sync {duration_of(latest['time/weight_sync'])}" if "time/weight_sync" in latest else ""
        lines.append(("step", f"{duration_of(latest['time/step'])}{sync}", "text"))
    lines += _gpus(pipeline.get("gpus") or ())
    if groups:
        lines.append(("group", _group(groups[-1]), "text"))
    checkpoint = status.get("last_checkpoint")
    if checkpoint:
        best = (status.get("best") or {}).get("step")
        known = [
            f"{word}step_{step}"
            for word, step in (("checkpoint ", checkpoint.get("step")), ("best ", best))
            if step is not None
        ]
        if known:
            lines.append(("saved", ", ".join(known), "text"))
    for warning in (status.get("warnings") or [])[-2:]:
        lines.append(("warning", clean(warning.get("text"), 300), "watch"))
    return lines


def cause_lines(status: Status | None) -> list[Line]:
    """Why it failed, and what to do; none of a run that did not."""
    error = (status or {}).get("error") or {}
    lines = [("cause", clean(error.get("message"), 400), "act")] if error else []
    return [*lines, ("to do", clean(error.get("hint"), 400), "text")] if error.get("hint") else lines


def written_later(status: Status) -> str | None:
    """What is said of a run that a later version of this program wrote: what is known of it is shown."""
    schema = status.get("schema")
    if type(schema) is not int or schema <= SCHEMA:
        return None
    return (
        f"a later version wrote this run (schema {schema}, here {SCHEMA}): some of it is not shown; install a newer one"
    )


def _pipeline(pipeline: Mapping[str, Any]) -> list[Line]:
    most = pipeline.get("max") or 0
    playing = f"{pipeline.get('running') or 0} of {most} episodes running" if most else "no episode runs"
    if pipeline.get("judging"):
        playing += f", {pipeline['judging']} with the judge"
    need = pipeline.get("need") or 0
    queued = pipeline.get("ready") or 0
    ready = f", {queued} of {need} ready for the next batch" if need else ""
    if need and queued >= need:
        ready = f", {queued} ready: {batches(queued, need)}"
    learner = clean(pipeline.get("learner") or "idle", 20)
    sync = pipeline.get("sync")
    weights = f", weights {clean(sync, 20)}" if sync not in (None, "idle") else ""
    return [("rollouts", playing + ready, "text"), ("trainer", learner + weights, "text")]


def _gpus(gpus: Sequence[Mapping[str, Any]]) -> list[Line]:
    """A line each; of many one a role, the Pipeline tab has them one by one."""
    if len(gpus) <= _GPU_LINES:
        return [(f"GPU{gpu.get('index')}", _gpu(gpu), "text") for gpu in gpus]
    roles: dict[str, list[Mapping[str, Any]]] = {}
    for gpu in gpus:
        roles.setdefault(clean(gpu.get("role") or "", 20), []).append(gpu)
    return [("GPUs", f"{len(some)} {_gpu(_together(role, some))}", "text") for role, some in roles.items()]


def _together(role: str, gpus: Sequence[Mapping[str, Any]]) -> dict[str, Any]:
    """Mean use, and all of the memory."""
    found: dict[str, Any] = {"role": role}
    uses = [gpu["util"] for gpu in gpus if gpu.get("util") is not None]
    if uses:
        found["util"] = sum(uses) / len(uses)
    for name in ("used_bytes", "total_bytes"):
        found[name] = sum(gpu.get(name) or 0 for gpu in gpus)
    return found


def _gpu(gpu: Mapping[str, Any]) -> str:
    parts = [clean(gpu.get("role") or "", 20)]
    if gpu.get("util") is not None:
        parts.append(f"{100 * gpu['util']:.0f} %")
    if gpu.get("used_bytes") is not None and gpu.get("total_bytes"):
        parts.append(f"{gpu['used_bytes'] / _GIB:.1f} of {gpu['total_bytes'] / _GIB:.0f} GiB")
    return " ".join(part for part in parts if part)


def _group(group: Mapping[str, Any]) -> str:
    rewards = " ".join(short(reward) for reward in (group.get("rewards") or [])[:16])
    std = group.get("std")
    spread = "all alike: nothing to learn" if group.get("dead") else f"std {short(std)}" if std is not None else ""
    return f"seed {group.get('seed')}, rewards {rewards}, {spread}".rstrip(", ")


def duration_of(seconds: float) -> str:
    """Tenths below ten seconds, milliseconds where those say nothing."""
    if 0 < seconds < 0.095:
        return f"{1000 * seconds:.2g} ms"
    return f"{seconds:.1f} s" if seconds < 10 else duration(seconds)
