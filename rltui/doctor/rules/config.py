"""D24 and D36: what was written and is not what runs. They need no step."""

from __future__ import annotations

from rltui.doctor.record import GIVEN, Record
from rltui.doctor.rule import Bands, Reading, State, none, rule
from rltui.model.ran_with import LIVE

IGNORED = ("no_effect", "judge_off", "step_rewards", "local_engine", "unknown")
ELSEWHERE = ("env", "override", "set", LIVE)  # origins of what somebody gave, not in the file
MOST = 3  # that are named


@rule(
    "D24",
    "written dropout",
    "A dropout that is written is not applied. If it were, the ratio would be random from step 0 (a clipped share of "
    "0.54 was reported).",
    ("training.lora.dropout",),
    window="config",
    steady=1,
    by_step=False,
)
def dropout(record: Record, band: Bands) -> Reading:
    if not record.leaves:
        return none("no resolved config")
    value = record.number("training.lora.dropout") or 0.0
    told = f"training.lora.dropout = {value:g} is written; the run uses 0." if value else "No dropout is written."
    return Reading(State.WATCH if value else State.OK, value, f"{value:g}", "0", told)


@rule(
    "D36",
    "changed values",
    "What runs is not what was written: a value was changed, or a field has no effect.",
    (),
    window="config",
    steady=1,
    by_step=False,
)
def as_written(record: Record, band: Bands) -> Reading:
    if not record.leaves:
        return none("no resolved config")
    changed = [
        (key, f"{key} is {leaf.get('value')} here" + (f" ({leaf['note']})" if leaf.get("note") else ""))
        for key, leaf in record.leaves.items()
        if leaf.get("origin") not in GIVEN and leaf.get("at")
    ]
    ignored = [
        (str(item.get("key")), f"{item.get('key')}: {item.get('text')}")
        for item in record.warnings
        if item.get("code") in IGNORED and item.get("key") != "training.lora.dropout"
    ]
    elsewhere = [
        f"{key} is {leaf.get('value')} ({leaf.get('at') or leaf.get('origin')})"
        for key, leaf in record.leaves.items()
        if leaf.get("origin") in ELSEWHERE
    ]
    found = changed + ignored
    return Reading(
        State.WATCH if found else State.OK,
        float(len(found)),
        f"{len(found)} differ" if len(found) != 1 else "1 differs",
        "none",
        " ".join(filter(None, (_some([text for _, text in found]), _some(elsewhere))))
        or "Every value runs as the file has it.",
        keys=tuple(dict.fromkeys(key for key, _ in found[:MOST])),
    )


def _some(texts: list[str]) -> str:
    """The first ones as sentences, and how many more there are."""
    more = f" And {len(texts) - MOST} more." if len(texts) > MOST else ""
    return " ".join(f"{text}." for text in texts[:MOST]) + more
