"""D25 and D26: whether what is trained is what was sampled."""

from __future__ import annotations

from rltui.doctor.record import Record
from rltui.doctor.rule import Bands, Reading, State, none, over, percent, rule, worst

FORCED = "tokens/sampling_forced"
CALLS = ("clean", "realign", "fork", "drift", "orphan")
# policy.*: what samples the plain distribution. Training drops any other value, and says so.
PLAIN = {"policy.top_p": (1, 1.0), "policy.top_k": (0, -1), "policy.repetition_penalty": (1, 1.0)}


@rule(
    "D25",
    "forced sampling",
    "The task app, or the config, asks for another distribution than the one that is trained; the gateway drops it.",
    ("rollout.policy_config", "policy.top_p", "policy.top_k"),
    metrics=(FORCED,),
    window="20 iterations",
    steady=1,
)
def plain(record: Record, band: Bands) -> Reading:
    given = [
        f"{key} = {value}"
        for key, usual in PLAIN.items()
        if (value := record.value(key)) is not None and value not in usual
    ]
    codes = [item for item in record.warnings if item.get("code") in ("sampling", "policy_config")]
    forced = record.recent(FORCED, int(band["window"]))
    if not given and not codes and not forced and not record.leaves:
        return none("no config, no call")
    asked = sum(forced)
    told = []
    if given:
        told.append(f"The config has {', '.join(given)}: training samples without.")
    elif codes:
        told.append(f"{codes[0].get('key')}: {codes[0].get('text')}.")
    if asked:
        told.append(f"{asked:g} settings of calls were dropped in the last {len(forced)} iterations.")
    count = int(asked) + len(given or codes)
    return Reading(
        State.WATCH if told else State.OK,
        float(count),
        f"{count} dropped",
        "none",
        " ".join(told) or "Every call samples the plain distribution.",
        keys=tuple(key for key in PLAIN if any(key in text for text in given)) if given else (),
    )


@rule(
    "D26",
    "rewritten history",
    "The template, or the task app, rewrites what the policy said: the tokens of a turn do not continue the recorded "
    "ones.",
    ("rollout.thinking_mode", "policy.model_name"),
    metrics=("tokens/fork", "tokens/realign", "tokens/drift", "tokens/clean"),
    window="20 iterations",
)
def history(record: Record, band: Bands) -> Reading:
    window = int(band["window"])
    counts = {name: sum(record.recent(f"tokens/{name}", window)) for name in CALLS}
    total = sum(counts.values())
    if record.count("tokens/clean") < 3 or total <= 0:
        return none("no episode of two calls" if record.count("tokens/clean") else "it was not recorded")
    fork, rest = counts["fork"] / total, (counts["realign"] + counts["drift"]) / total
    told = f"{percent(fork)} of the calls fork, {percent(rest)} are realigned or drift, of {total:.0f}."
    return worst(
        Reading(
            over(fork, band["fork"], band["act"]), fork, f"{percent(fork)} fork", f"< {percent(band['fork'])}", told
        ),
        Reading(
            over(rest, band["drift"]),
            rest,
            f"{percent(rest)} realign",
            f"< {percent(band['drift'])}",
            told,
            metric="tokens/realign" if counts["realign"] >= counts["drift"] else "tokens/drift",
        ),
    )
