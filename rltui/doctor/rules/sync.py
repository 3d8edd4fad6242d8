"""D13, D14, D18 and D19: whether the engine runs the weights that are trained."""

from __future__ import annotations

from rltui.doctor.maths import mean, median
from rltui.doctor.record import Record
from rltui.doctor.rule import Bands, Reading, State, none, over, percent, rule, times, worst
from rltui.words import short

GAP, KL, LAG = "logp_gap/mean", "mismatch_kl/mean", "off_policy/max"
BEFORE = 50  # steps between the two means of a trend


def _fresh(record: Record, name: str, points: int) -> list[float]:
    """Its last values in steps at lag 0, which are those that noise alone moves."""
    lags = dict(record.recent_points(LAG, 4 * points))
    return [y for x, y in record.recent_points(name, 4 * points) if lags.get(x) == 0][-points:]


@rule(
    "D13",
    "trainer-engine gap",
    "Trainer and engine disagree about log-probabilities: precision, temperature, or rounding when weights are "
    "merged. A gap of about 0.2 means that the engine has old weights.",
    ("training.dtype", "training.weight_sync.verify_every_k"),
    metrics=(GAP, "logp_gap/sd"),
    window="10 steps at lag 0",
)
def gap(record: Record, band: Bands) -> Reading:
    now, first = _fresh(record, GAP, int(band["window"])), record.first(GAP, 3)
    if len(now) < 5 or not first:
        return none(f"needs 5 at lag 0, has {len(now)}" if record.count(GAP) else "it was not measured")
    here, start = mean(now), mean(first)
    told = f"The mean gap at lag 0 is {short(here)}; in the first steps it was {short(start)}."
    want = f"≤ {times(band['watch'])}"
    if here <= band["ignore"] or start <= 0:
        return Reading(State.OK, here, short(here), want, told)
    factor = here / start
    return Reading(over(factor, band["watch"], band["act"]), factor, times(factor), want, told)


@rule(
    "D14",
    "mismatch growth",
    "An old prefix cache, or an old adapter, is still served.",
    ("training.weight_sync.verify_every_k", "training.weight_sync.mode"),
    metrics=(KL, "mismatch_kl/max"),
    window="10 steps against 50 before",
)
def mismatch(record: Record, band: Bands) -> Reading:
    window = int(band["window"])
    now, before = record.recent(KL, window), record.at(record.step - BEFORE).recent(KL, window)
    if len(now) < 5 or len(before) < 5:
        return none(f"needs {BEFORE + 5} steps, has {record.count(KL)}")
    here, start = mean(now), mean(before)
    told = f"The mismatch KL is {short(here)}; {BEFORE} steps before it was {short(start)}."
    want = f"< {times(band['watch'])}"
    if here <= band["ignore"] or start <= 0:
        return Reading(State.OK, here, short(here), want, told)
    factor = here / start
    return Reading(over(factor, band["watch"], band["act"]), factor, times(factor), want, told)


@rule(
    "D18",
    "weights canary",
    "The engine does not run the weights that it claims. Stop trusting the rewards.",
    ("training.weight_sync.enable", "training.weight_sync.targets", "training.weight_sync.verify_every_k"),
    metrics=("canary/failed", "canary/slope", "canary/residual", "canary/undecided"),
    window="last check",
    steady=1,
)
def canary(record: Record, band: Bands) -> Reading:
    failed, slope, residual, undecided = (
        record.last(f"canary/{name}") for name in ("failed", "slope", "residual", "undecided")
    )
    if failed is None and slope is None:
        off = record.number("training.weight_sync.verify_every_k") == 0
        return none("no check was made" + (": training.weight_sync.verify_every_k is 0" if off else " yet"))
    parts: list[Reading] = []
    if failed:
        parts.append(
            Reading(
                State.ACT, failed, f"{failed:g} failed", "0 failed", f"{failed:g} checks of the served weights failed."
            )
        )
    if slope is not None:
        good = band["low"] <= slope <= band["high"]
        parts.append(
            Reading(
                State.OK if good else State.ACT,
                slope,
                f"slope {slope:.2f}",
                f"{band['low']:g}–{band['high']:g}",
                f"Of the change that the trainer made the engine shows {slope:.2f} times as much.",
                metric="canary/slope",
            )
        )
    noise = _canary_noise(record)
    if residual is not None and noise:
        factor = residual / noise
        parts.append(
            Reading(
                over(factor, band["residual"]),
                factor,
                f"residual {times(factor)}",
                f"< {times(band['residual'])} noise",
                f"What the slope leaves over is {short(residual)}, {times(factor)} the noise of a right sync.",
                metric="canary/residual",
            )
        )
    if undecided is not None and undecided >= band["undecided"]:
        parts.append(
            Reading(
                State.WATCH,
                undecided,
                f"{undecided:g} undecided",
                f"< {band['undecided']:g}",
                f"{undecided:g} checks in a row could not tell: the weights change less than the noise.",
                metric="canary/undecided",
            )
        )
    return worst(*parts, Reading(State.OK, 0.0, "0 failed", "0 failed", "No check has failed."))


def _canary_noise(record: Record) -> float | None:
    """Of version 0, as the newest check that an event tells of has it."""
    for event in reversed(record.events):
        data = event.get("data")
        found = data.get("canary") if isinstance(data, dict) and event.get("type") == "rl.weight_sync" else None
        if isinstance(found, dict):
            noise = found.get("noise")
            return noise if isinstance(noise, float) and noise > 0 else None
    return None


@rule(
    "D19",
    "weight sync",
    "Sending weights is slow, or has silently stopped.",
    ("training.weight_sync_interval", "training.weight_sync.direct", "training.weight_sync.verify_every_k"),
    metrics=("time/weight_sync",),
    window="20 steps",
)
def sending(record: Record, band: Bands) -> Reading:
    if record.value("training.weight_sync.enable") is False:
        return none("training.weight_sync.enable is false: no weights are sent")
    window = int(band["window"])
    share = record.share("time/weight_sync", "time/step", window)
    parts: list[Reading | None] = []
    if share is not None and record.count("time/weight_sync") >= 5:
        seconds = median(record.recent("time/weight_sync", window))
        direct = () if record.value("training.weight_sync.direct") else ("training.weight_sync.direct",)
        parts.append(
            Reading(
                State.OK if seconds < band["seconds"] else over(share, band["share"]),
                share,
                f"{percent(share)} of step",
                f"< {percent(band['share'])}",
                f"Sending weights takes {percent(share)} of the step, {seconds:.1f} s.",
                keys=("training.weight_sync_interval", *direct),
            )
        )
    sent, done = record.part("weight_updates"), record.part("step")
    every = record.number("training.weight_sync_interval") or 1.0
    if isinstance(sent, int) and isinstance(done, int) and done > 0:
        behind = max(0, done - sent) / every
        parts.append(
            Reading(
                over(behind, band["intervals"], band["intervals_act"]),
                behind,
                f"{behind:g} intervals",
                f"< {band['intervals']:g}",
                f"The engine serves the weights of step {sent}; step {done} is done.",
                title="weights behind",
                keys=("training.weight_sync.verify_every_k",),
            )
        )
    return worst(*parts)
