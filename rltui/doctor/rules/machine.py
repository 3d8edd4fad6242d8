"""D31 to D33: GPUs and the disk."""

from __future__ import annotations

from itertools import pairwise

from rltui.doctor.maths import mean, median
from rltui.doctor.record import Record
from rltui.doctor.rule import Bands, Reading, State, none, over, percent, rule, under, worst

UTIL, MEM, RETRIES, DISK = "system/gpu_util", "system/gpu_mem", "system/alloc_retries", "system/disk_free_gib"
# Bytes of a checkpoint per parameter of the model: weights, fp32 masters, two moments; an adapter is a few percent.
BYTES = {"full": 16.0, "lora": 0.6, "qlora": 0.6}


@rule(
    "D31",
    "GPU use",
    "A GPU that is paid for is idle.",
    ("compute.topology.gpus_for_vllm", "rollout.max_concurrent_rollouts"),
    metrics=(UTIL,),
    window="2 minutes",
)
def used(record: Record, band: Bands) -> Reading:
    points = record.recent_points(UTIL, 60)
    last = record.time_of(record.step)
    if not points or last is None:
        return none("no sample of a GPU")
    recent = [y for x, y in points if (at := record.time_of(x)) is not None and last - at <= band["seconds"]]
    if len(recent) < 2:
        recent = [y for _, y in points[-2:]]  # steps that take longer than the window
    if len(recent) < 2:
        return none("needs 2 samples of a GPU")
    here, phase = mean(recent), record.part("phase")
    want = f"> {percent(band['util'])}"
    if here < band["util"] and phase in ("evaluating", "checkpointing"):
        return Reading(State.OK, here, percent(here), want, f"The GPUs rest: the run is {phase}.")
    waiting = record.part("waiting", "on") or record.part("waiting", "for")
    told = f" It waits for {waiting}." if waiting and here < band["util"] else ""
    return Reading(under(here, band["util"]), here, percent(here), want, f"The GPUs are used to {percent(here)}.{told}")


@rule(
    "D32",
    "GPU memory",
    "The next long episode may run out of memory.",
    ("training.micro_batch_tokens", "training.max_seq_len", "vllm.gpu_memory_utilization"),
    metrics=(MEM, RETRIES),
    window="20 samples",
)
def memory(record: Record, band: Bands) -> Reading:
    taken, retries = record.recent(MEM, 20), record.recent(RETRIES, 20)
    if not taken and not retries:
        return none("no sample of a GPU")
    parts: list[Reading] = []
    if taken:
        free = 1 - max(taken)
        parts.append(
            Reading(
                under(free, band["headroom"], band["act"]),
                free,
                f"{percent(free)} free",
                f"> {percent(band['headroom'])}",
                f"At most {percent(max(taken))} of the GPUs' memory was taken.",
            )
        )
    if len(retries) > 1:
        more = retries[-1] - retries[0]
        parts.append(
            Reading(
                over(more, 0),
                more,
                f"{more:g} retries",
                "0",
                f"The allocator had to free its cache {more:g} times, which is slow and the last step before an end.",
                metric=RETRIES,
            )
        )
    return worst(*parts)


@rule(
    "D33",
    "disk space",
    "The disk fills up. While a checkpoint is saved that is worst; a reserve still lets status and events be written.",
    ("checkpoint.keep_last", "logging.runs_dir"),
    metrics=(DISK,),
    window="an hour",
)
def disk(record: Record, band: Bands) -> Reading:
    free = record.last(DISK)
    if free is None:
        return none("no sample of the disk")
    model = record.environment.get("model")
    parameters = model.get("parameters") if isinstance(model, dict) else None
    mode = record.value("policy.trainer_mode")
    checkpoint = parameters * BYTES.get(str(mode), 0.6) / 2**30 if isinstance(parameters, int | float) else 0.0
    hourly = _hourly(record)
    need = max(1.0, band["checkpoints"] * checkpoint + band["hours"] * hourly)
    return Reading(
        under(free, need, band["act"] * need),
        free,
        f"{free:.1f} GiB free" if free < 100 else f"{free:.0f} GiB free",
        f"> {need:.1f} GiB",
        f"{free:.1f} GiB are free; {band['checkpoints']:g} checkpoints of about {checkpoint:.1f} GiB and "
        f"{band['hours']:g} h of writing ({hourly:.1f} GiB) must fit.",
    )


def _hourly(record: Record) -> float:
    """GiB an hour by which the disk fills, of the last hour; single steps of it do not count."""
    points = record.recent_points(DISK, 60)
    timed = [(at, free) for step, free in points if (at := record.time_of(step)) is not None]
    rates = [
        (before - after) / (end - start) * 3600 for (start, before), (end, after) in pairwise(timed) if end > start
    ]
    return max(0.0, median(rates)) if len(rates) >= 5 else 0.0
