"""D11, D12, D15 to D17: the ratio, its clip, and how far off-policy a batch is."""

from __future__ import annotations

from dataclasses import replace

from rltui.doctor.maths import mean
from rltui.doctor.record import Record
from rltui.doctor.rule import Bands, Reading, State, none, over, percent, rule, under, worst

LOW, HIGH, FLOOR = "gspo/clip_frac_low", "gspo/clip_frac_high", "gspo/clip_noise_floor"


@rule(
    "D11",
    "clipping",
    "The band is narrower than the numeric noise, so clipping is random. A clipped share of 0.35 to 0.44 was seen "
    "together with slow learning.",
    ("training.clip_eps_low", "training.clip_eps_high", "training.anchor"),
    metrics=(HIGH, LOW, FLOOR),
    window="20 steps",
)
def clipping(record: Record, band: Bands) -> Reading:
    window = int(band["window"])
    low, high, floors = (record.recent(name, window) for name in (LOW, HIGH, FLOOR))
    if min(len(low), len(high)) < 5:
        return none(f"needs 5 steps, has {min(len(low), len(high))}")
    observed = mean(low) + mean(high)
    if not floors:
        return Reading(
            over(observed, band["observed"], band["act"]),
            observed,
            percent(observed),
            f"< {percent(band['observed'])}",
            f"{percent(observed)} is clipped; the noise floor was not measured.",
        )
    floor = mean(floors)
    told = f"{percent(observed)} is clipped; noise alone would clip {percent(floor)}."
    noisy = Reading(
        over(floor, band["floor"], band["act"]),
        floor,
        percent(floor),
        f"< {percent(band['floor'])}",
        told,
        metric=FLOOR,
        title="clipped by noise alone",
    )
    much = max(band["observed"], band["near"] * floor)
    return worst(
        noisy if noisy.state is not State.OK else None,
        Reading(over(observed, much, max(much, band["act"])), observed, percent(observed), f"< {percent(much)}", told),
    )


@rule(
    "D12",
    "spread of the ratio",
    "The ratio is always 1: one update an iteration with a recomputed anchor, so the clip does nothing.",
    ("training.anchor", "training.batch_size"),
    metrics=("gspo/ratio_max", "gspo/ratio_min"),
    window="20 steps",
)
def moving(record: Record, band: Bands) -> Reading:
    window = int(band["window"])
    low = dict(record.recent_points("gspo/ratio_min", window))
    spread = [high - low[x] for x, high in record.recent_points("gspo/ratio_max", window) if x in low]
    if len(spread) < 5:
        return none(f"needs 5 steps, has {len(spread)}")
    widest = max(spread)
    return Reading(
        State.OK if widest > band["spread"] else State.WATCH,
        widest,
        f"{widest:.2g}",
        f"> {band['spread']:g}",
        f"The ratio spreads over {widest:.2g} at most, in {len(spread)} steps.",
    )


@rule(
    "D15",
    "effective episodes",
    "The batch is too far off-policy: few of its episodes carry the update.",
    ("training.max_lag", "training.weight_sync_interval"),
    metrics=("ess", "gspo/ratio_out_of_band_frac"),
    window="20 steps",
)
def near(record: Record, band: Bands) -> Reading:
    window = int(band["window"])
    found = worst(_ess(record, window, band), _outside(record, window, band))
    lags = record.recent("off_policy/max", window)
    if found.state in (State.OK, State.NONE) or not lags or any(lags):
        return found
    told = f"{found.says} None of them was old: the updates of an iteration lead that far by themselves."
    return replace(found, says=told, keys=("training.learning_rate",))


def _ess(record: Record, window: int, band: Bands) -> Reading | None:
    size = record.derived("U")
    trained = dict(record.recent_points("batch/trainable_frac", window))
    shares = [
        min(1.0, ess / max(1.0, size * trained.get(x, 1.0))) for x, ess in record.recent_points("ess", window) if size
    ]
    if len(shares) < 5:
        return None
    share = mean(shares)
    return Reading(
        under(share, band["ess"], band["ess_act"]),
        share,
        f"{percent(share)} ess",
        f"> {percent(band['ess'])}",
        f"The episodes of a step count as much as {percent(share)} of them would, all alike.",
    )


def _outside(record: Record, window: int, band: Bands) -> Reading | None:
    found = record.recent("gspo/ratio_out_of_band_frac", window)
    if len(found) < 5:
        return None
    share = mean(found)
    return Reading(
        over(share, band["outside"], band["outside_act"]),
        share,
        percent(share),
        f"< {percent(band['outside'])}",
        f"{percent(share)} of the ratios lie outside what noise explains (1 %, or three times its spread).",
        metric="gspo/ratio_out_of_band_frac",
        title="ratios out of band",
    )


@rule(
    "D16",
    "episode lag",
    "Slow episodes ran into their timeout, or out of max_lag, and were thrown away.",
    ("training.max_lag", "rollout.timeout_s", "rollout.max_concurrent_rollouts"),
    metrics=("off_policy/max", "off_policy/mean", "off_policy/dropped"),
    window="20 iterations",
)
def lag(record: Record, band: Bands) -> Reading:
    window = int(band["window"])
    found, dropped = record.recent("off_policy/max", window), record.recent("off_policy/dropped", window)
    limit, size = record.number("training.max_lag"), record.derived("E")
    parts: list[Reading | None] = []
    if dropped and size:
        share = sum(dropped) / (sum(dropped) + size * len(dropped))
        parts.append(
            Reading(
                over(share, band["dropped"], band["dropped_act"]),
                share,
                f"{percent(share)} dropped",
                f"< {percent(band['dropped'])}",
                f"{percent(share)} of the episodes were too old to be trained on.",
                metric="off_policy/dropped",
                title="stale episodes",
            )
        )
    if found and limit is not None:
        top = max(found)
        parts.append(
            Reading(
                over(top, limit),
                top,
                f"lag {top:g}",
                f"≤ {limit:g}",
                f"The oldest episode of a batch was {top:g} steps behind; training.max_lag is {limit:g}.",
            )
        )
    return worst(*parts)


# What excludes most, and the key that has a say in it.
REASONS = {
    "zero_variance": ("groups with equal rewards", ("training.group_size", "rollout.max_refill_groups")),
    "stale": ("too old", ("training.max_lag",)),
    "truncated": ("cut, and masked", ("policy.max_tokens", "training.mask_truncated")),
    "timeout": ("timeouts", ("rollout.timeout_s",)),
    "judge_failed": ("without a score", ("judge.timeout_s",)),
    "too_long": ("too long", ("training.max_seq_len",)),
    "proximal_mask": ("outside the proximal mask", ("training.anchor",)),
}


@rule(
    "D17",
    "trained episodes",
    "Most episodes are left out.",
    ("rollout.max_excluded_fraction",),
    metrics=("batch/trainable_frac", "reward/frac_zero_std"),
    window="20 steps",
)
def trained(record: Record, band: Bands) -> Reading:
    window = int(band["window"])
    found = record.recent("batch/trainable_frac", window)
    if len(found) < 3:
        return none(f"needs 3 steps, has {len(found)}")
    share = mean(found)
    state = under(share, band["watch"], band["act"])
    told, metric = f"{percent(share)} of the episodes carry gradient.", ""
    keys: tuple[str, ...] = ()
    if state is not State.OK:
        code, words, keys, metric = _largest_reason(record, window)
        told += f" The largest reason: {words or code}." if code else ""
        keys = keys if code == "zero_variance" else (*keys, "rollout.max_excluded_fraction")
    return Reading(state, share, percent(share), f"> {percent(band['watch'])}", told, metric=metric, keys=keys)


def _largest_reason(record: Record, window: int) -> tuple[str, str, tuple[str, ...], str]:
    size = record.derived("E") or 1.0
    counts = {}
    for name in record.names("error/"):
        values = record.recent(name, window)
        counts[name.removeprefix("error/")] = (sum(values) / window / size, name)
    dead = record.recent("reward/frac_zero_std", window)
    if dead:
        counts["zero_variance"] = (mean(dead), "reward/frac_zero_std")
    code = max(counts, key=lambda code: counts[code][0], default="")
    if not code or counts[code][0] <= 0:
        return "", "", (), ""
    words, keys = REASONS.get(code, (code.replace("_", " "), ()))
    return code, words, keys, counts[code][1]
