"""Findings as data and as lines of text: what `rltui doctor` prints."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

from rltui.doctor.doctor import Finding, counts, speaking
from rltui.doctor.record import Json, Record
from rltui.doctor.rule import State
from rltui.doctor.ways import way
from rltui.text import clean

WORDS = {State.ACT: "act", State.BROKEN: "broken", State.WATCH: "watch", State.OK: "ok", State.NONE: "no data"}


def document(findings: Sequence[Finding], record: Record) -> Json:
    """One object: how many say what, the worst finding, and every finding."""
    heard = speaking(findings)
    return {
        "rules": len(findings),
        "counts": {name.replace(" ", "_"): count for name, count in counts(findings).items()},
        "worst": heard[0].rule.id if heard else None,
        "findings": [_row(finding, record) for finding in findings],
    }


def _row(finding: Finding, record: Record) -> Json:
    rule, reading = finding.rule, finding.reading
    return {
        "id": rule.id,
        "state": finding.state.value,
        "title": finding.title,
        "value": reading.value,
        "measured": reading.measured,
        "want": reading.want,
        "says": reading.says,
        "cause": rule.cause,
        "window": rule.window,
        "metric": finding.metric or None,
        "metrics": list(rule.metrics),
        "keys": [{"key": key, "value": record.value(key), "way": way(rule.id, key)} for key in finding.keys],
        "muted": finding.muted or None,
    }


def summary(findings: Sequence[Finding]) -> str:
    """'2 of 36 rules speak: 2 watch, 31 ok, 3 no data'."""
    told = counts(findings)
    parts = [f"{told[state.value]} {WORDS[state]}" for state in State if told[state.value]]
    muted = [f"{told['muted']} muted"] if told["muted"] else []
    heard = len(speaking(findings))
    return f"{heard} of {len(findings)} rules speak: {', '.join([*parts, *muted])}"


def lines(finding: Finding, record: Record) -> Iterator[tuple[str, str]]:
    """(label, text): the finding, then what belongs to it; the label of the first is its state."""
    yield WORDS[finding.state], f"{finding.rule.id} {finding.line}"
    if finding.muted:
        yield "muted", finding.muted
    if finding.reading.says:
        yield "", finding.reading.says
    if finding.state in (State.OK, State.NONE):
        return
    yield "cause", finding.rule.cause
    if finding.keys:
        yield "change", ", ".join(key_words(key, record, finding.rule.id) for key in finding.keys)
    if finding.metric:
        yield "see", f"{finding.metric}, {finding.rule.window}"


def key_words(key: str, record: Record, rule: str = "") -> str:
    """'training.group_size (now 4)'; with the rule that names it 'raise training.group_size (now 4)'."""
    value: Any = record.value(key)
    turn = f"{found} " if (found := way(rule, key)) else ""
    return f"{turn}{key}" if value is None else f"{turn}{key} (now {_value(value)})"


def _value(value: Any) -> str:
    """As a config has it."""
    from trainer.config.toml_values import format_value

    return clean(format_value(value) if isinstance(value, bool | dict | list) else value, 60)
