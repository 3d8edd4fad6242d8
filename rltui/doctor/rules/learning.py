"""D08 to D10 and D20 to D23: what becomes of the policy, and how large its steps are."""

from __future__ import annotations

from dataclasses import replace
from math import log10

from rltui.doctor.maths import mean, median
from rltui.doctor.record import Record
from rltui.doctor.rule import Bands, Reading, State, none, over, percent, rule, times, worst
from rltui.doctor.rules.rewards import GOOD, flat
from rltui.words import short

UPDATE, NORM, CLIPPED, SKIPPED = "optim/update_ratio", "optim/grad_norm", "optim/clipped_frac", "optim/skipped"
TRAINABLE = "batch/trainable_frac"
CLIP = ("gspo/clip_frac_low", "gspo/clip_frac_high")
ALL = 1 - 1e-6
CUTS = ("stop/max_turns", "stop/call_limit", "stop/context_overflow")
LEAST = 10  # values at the start that something is compared with


@rule(
    "D08",
    "entropy",
    "Low: the policy has collapsed to one answer. High: it is falling apart. Without any gradient: a step was so large "
    "that it answers to nothing any more.",
    ("training.learning_rate", "policy.temperature"),
    metrics=("entropy", NORM),
    window="20 steps",
)
def entropy(record: Record, band: Bands) -> Reading:
    window = int(band["window"])
    if len(still := _still(record, window)) >= band["still"]:
        return _gone(record, still)
    first, now = record.first("entropy", window), record.recent("entropy", window)
    if len(first) < LEAST or record.count("entropy") < window + LEAST:
        return none(f"needs {window + LEAST} steps, has {record.count('entropy')}")
    start, here = mean(first), mean(now)
    if start <= 0:
        return none("it was 0 from the start")
    factor = here / start
    state = State.OK if band["low"] <= factor <= band["high"] else State.WATCH
    if factor < band["act_low"] or factor > band["act_high"]:
        state = State.ACT
    return Reading(
        state,
        factor,
        percent(factor),
        f"{100 * band['low']:.0f}–{percent(band['high'])}",
        f"The entropy is {short(here)} now and was {short(start)} in the first {window} steps.",
    )


def _still(record: Record, window: int) -> list[float]:
    """The last steps in a row, newest first, whose episodes left a gradient of exactly 0 though no clip took it all."""
    trained = dict(record.within(TRAINABLE, window))
    clips = [dict(record.within(name, window)) for name in CLIP]
    found = []
    for step, norm in reversed(record.within(NORM, window)):
        if norm != 0 or not trained.get(step) or sum(clip.get(step, 0.0) for clip in clips) > ALL:
            break
        found.append(step)
    return found


def _gone(record: Record, still: list[float]) -> Reading:
    here = record.last("entropy")
    told = f" The entropy is {short(here)}." if here is not None else ""
    return Reading(
        State.ACT,
        0.0,
        f"without gradient in {len(still)} steps",
        "a gradient",
        f"The gradient is exactly 0 since step {still[-1]:.0f}: nothing is learned any more.{told} Go back to a "
        "checkpoint from before, with a lower rate.",
        metric=NORM,
        keys=("training.learning_rate",),
    )


@rule(
    "D09",
    "episode length",
    "The length drifts without benefit: a length-weighted loss, or a reward that leaks with it.",
    ("policy.max_tokens", "training.loss_aggregation"),
    metrics=("length/mean", "reward/mean"),
    window="20 iterations",
)
def length(record: Record, band: Bands) -> Reading:
    window = int(band["window"])
    first, now = record.first("length/mean", window), record.recent("length/mean", window)
    if len(first) < LEAST or record.count("length/mean") < window + LEAST:
        return none(f"needs {window + LEAST} iterations, has {record.count('length/mean')}")
    start, here = mean(first), mean(now)
    if start <= 0:
        return none("it was 0 from the start")
    factor, still = here / start, flat(record, 50, 2.0)
    outside = not band["low"] <= factor <= band["high"]
    moves = "" if not outside else ", and the reward is flat" if still else ", and the reward still rises"
    return Reading(
        State.WATCH if outside and still else State.OK,
        factor,
        percent(factor),
        f"{100 * band['low']:.0f}–{percent(band['high'])}",
        f"Episodes have {short(here)} tokens now and had {short(start)} at first{moves}.",
    )


@rule(
    "D10",
    "cut episodes",
    "Episodes end at a limit. That harms where what is cut off would have counted; while the reward rises it may be "
    "the task itself, such as one for short answers.",
    ("rollout.max_turns", "policy.max_tokens", "vllm.max_model_len", "training.mask_truncated"),
    metrics=("length/truncated", *CUTS),
    window="20 iterations",
)
def cut(record: Record, band: Bands) -> Reading:
    window = int(band["window"])
    count = min(window, record.count("length/truncated"))
    if count < 5:
        return none(f"needs 5 iterations, has {count}")
    first, last = record.recent_points("length/truncated", window)[0][0], record.step
    # An iteration without a stop reason has no value for it: it counts as 0 there.
    cuts = {name: sum(y for x, y in record.recent_points(name, window) if first <= x <= last) / count for name in CUTS}
    tokens = mean(record.recent("length/truncated", window))
    parts = [
        _cut(band, tokens, "length/truncated", "cut at a limit of tokens or calls", ("policy.max_tokens",)),
        _cut(band, cuts["stop/max_turns"], "stop/max_turns", "ended by the limit of turns", ("rollout.max_turns",)),
        _cut(
            band,
            cuts["stop/context_overflow"],
            "stop/context_overflow",
            "ended by the context's end",
            ("vllm.max_model_len", "policy.max_tokens"),
        ),
    ]
    speaking = [part for part in parts if part.state is not State.OK]
    found = worst(*sorted(speaking or parts, key=lambda part: -(part.value or 0)))
    return _as_it_harms(found, record, band)


def _as_it_harms(found: Reading, record: Record, band: Bands) -> Reading:
    """Cut or not, nearly all of it has full reward; and what still learns needs no one at once."""
    full, solved = record.recent(GOOD, 10), band["solved"]
    if found.state is not State.OK and full and mean(full) >= solved:
        return replace(found, state=State.OK, says=f"{found.says} Nearly every group has full reward all the same.")
    if found.state is State.ACT and not flat(record, 50, 2.0):
        return replace(found, state=State.WATCH, says=f"{found.says} The reward is not flat.")
    return found


def _cut(band: Bands, share: float, metric: str, how: str, keys: tuple[str, ...]) -> Reading:
    return Reading(
        over(share, band["watch"], band["act"]),
        share,
        percent(share),
        f"< {percent(band['watch'])}",
        f"{percent(share)} of the episodes are {how}.",
        metric=metric,
        keys=(*keys, "training.mask_truncated"),
    )


def _updates(record: Record, window: int, skip: int) -> list[float] | str:
    """The last relative updates as log10, or what is missing. Of lora the first ones do not count."""
    lora = record.value("policy.trainer_mode") in ("lora", "qlora", None)
    need = (skip if lora else 0) + 5
    if record.count(UPDATE) < need:
        return f"needs {need} steps, has {record.count(UPDATE)}"
    usable = min(window, record.count(UPDATE) - (skip if lora else 0))
    found = [log10(value) for value in record.recent(UPDATE, usable) if value > 0]
    return found or "no update was measured"


@rule(
    "D20",
    "large updates",
    "The rate is too high: each step changes the weights a lot.",
    ("training.learning_rate",),
    metrics=(UPDATE,),
    window="20 steps",
)
def too_large(record: Record, band: Bands) -> Reading:
    found = _updates(record, int(band["window"]), int(band["lora_skip"]))
    if isinstance(found, str):
        return none(found)
    here = median(found)
    return Reading(
        over(here, band["watch"], band["act"]),
        here,
        f"10^{here:.1f}",
        f"≤ 10^{band['watch']:g}",
        f"A step changes the weights by 10^{here:.1f} of their size; about 10^-3 is usual.",
    )


@rule(
    "D21",
    "small updates",
    "The rate is too low while the reward is flat; lora wants about ten times the rate of full tuning.",
    ("training.learning_rate",),
    metrics=(UPDATE, "reward/mean"),
    window="20 steps",
)
def too_small(record: Record, band: Bands) -> Reading:
    found = _updates(record, int(band["window"]), 20)
    if isinstance(found, str):
        return none(found)
    here, still = median(found), flat(record, 50, 2.0)
    small = here < band["watch"]
    return Reading(
        State.WATCH if small and still else State.OK,
        here,
        f"10^{here:.1f}",
        f"≥ 10^{band['watch']:g}",
        f"A step changes the weights by 10^{here:.1f} of their size"
        + (", and the reward is flat." if small and still else "."),
    )


@rule(
    "D22",
    "gradient norm",
    "A spike: a bad batch, the rate, or a ratio far out. Clipped often, and unevenly: the large gradients, which may "
    "be the ones that teach, count for less.",
    ("training.learning_rate", "training.max_grad_norm"),
    metrics=(NORM, CLIPPED),
    window="50 steps",
)
def even(record: Record, band: Bands) -> Reading:
    window = int(band["window"])
    points = record.recent_points(NORM, window)
    if len(points) < 10:
        return none(f"needs 10 steps, has {len(points)}")
    norms = [norm for _, norm in points]
    step, top = max(points, key=lambda point: point[1])
    middle, clipped = median(norms), record.recent(CLIPPED, window)
    factor = top / middle if middle > 0 else 1.0
    spike = Reading(
        over(factor, band["spike"], band["act"]),
        factor,
        f"{times(factor)} median",
        f"< {times(band['spike'])}",
        f"The largest gradient of the last {len(norms)} steps is {short(top)}, at step {step:.0f}; the median is "
        f"{short(middle)}.",
        keys=("training.learning_rate",),
    )
    if not clipped:
        return spike
    share, alike = mean(clipped), factor <= band["even"]
    told = f"{percent(share)} of the gradients were clipped to training.max_grad_norm; the median is {short(middle)}."
    often = Reading(
        State.OK if alike else over(share, band["clipped"]),
        share,
        f"{percent(share)} clipped",
        f"< {percent(band['clipped'])}",
        f"{told} They are much alike, so AdamW takes the factor out again." if alike else told,
        metric=CLIPPED,
        keys=("training.max_grad_norm",),
    )
    return worst(spike, often)


@rule(
    "D23",
    "skipped steps",
    "A loss, gradient or log-probability was not finite, or most ratios exploded: the step is skipped, and the third "
    "in a row ends the run.",
    ("training.dtype", "training.learning_rate"),
    metrics=(SKIPPED, "gspo/loss", TRAINABLE),
    window="50 steps",
    steady=1,
)
def finite(record: Record, band: Bands) -> Reading:
    window = int(band["window"])
    points = record.within(SKIPPED, window)
    if not points:
        return none("no step was recorded")
    empty = {
        step for step, value in record.within(TRAINABLE, window) if value == 0
    }  # nothing to learn from: other rules
    skipped = [step for step, value in points if value > 0 and step not in empty]
    lost = max(len(skipped), record.gaps("gspo/loss", window))
    last = f" The last one is step {skipped[-1]:.0f}." if skipped else ""
    return Reading(
        over(lost, 0, band["act"] - 0.5),
        float(lost),
        str(lost),
        "0",
        f"{lost} of the last {len(points)} steps were not finite and made no update.{last}"
        if lost
        else "Every step was finite.",
    )
