"""Readings become states: a state changes after three readings in a row that say the same. Pure."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass

from rltui.doctor.bands import Values, defaults
from rltui.doctor.record import Record
from rltui.doctor.rule import ORDER, Reading, Rule, State
from rltui.doctor.rules import RULES
from rltui.text import clean

LOOK_BACK = 6  # readings of a record that is seen for the first time


@dataclass(frozen=True, slots=True)
class Finding:
    """What a rule says now. Texts are cleaned. `muted`: the reason for which a person wants to hear no more of it."""

    rule: Rule
    state: State
    reading: Reading
    muted: str = ""

    @property
    def speaks(self) -> bool:
        """Whether it wants to be heard."""
        return self.state in (State.ACT, State.BROKEN, State.WATCH) and not self.muted

    @property
    def keys(self) -> tuple[str, ...]:
        """What to change, most likely first."""
        return self.reading.keys or self.rule.keys

    @property
    def metric(self) -> str:
        """The series that shows it; "" for none."""
        return self.reading.metric or (self.rule.metrics[0] if self.rule.metrics else "")

    @property
    def title(self) -> str:
        """The signal, in few words."""
        return self.reading.title or self.rule.title

    @property
    def line(self) -> str:
        """'zero-variance groups 46 % (want < 30 %)'."""
        want = f" (want {self.reading.want})" if self.reading.want and self.reading.measured else ""
        return f"{self.short}{want}"

    @property
    def short(self) -> str:
        """'zero-variance groups 46 %', where there is little room."""
        return f"{self.title} {self.reading.measured}".rstrip()


@dataclass(slots=True)
class _Steady:
    """A rule's state, and what wants to become it."""

    reading: Reading
    next: State
    count: int = 0


class Doctor:
    """Keeps the states of one run. `examine` with its record, again and again; one step is one reading."""

    def __init__(self, values: Values | None = None, rules: Sequence[Rule] = RULES, look_back: int = LOOK_BACK) -> None:
        self._values: Values = values if values is not None else defaults()
        self._rules = rules
        self._known: dict[str, _Steady] = {}
        self._look_back = look_back
        self._step = -1

    def examine(self, record: Record, muted: Mapping[str, str] | None = None) -> tuple[Finding, ...]:
        """The findings, worst first, then by rule. `muted`: reasons by rule."""
        if record.step < self._step:  # steps were played again
            self._known.clear()
        if record.step > self._step or not self._known or not record.step:  # before the first, each look is a reading
            for earlier in self._readings(record):
                self._read(earlier, lambda rule: rule.by_step)
        self._step = record.step
        self._read(record, lambda rule: not rule.by_step)
        return tuple(
            sorted(
                (self._finding(rule, (muted or {}).get(rule.id, "")) for rule in self._rules),
                key=lambda finding: (ORDER[finding.state], finding.rule.id),
            )
        )

    def _readings(self, record: Record) -> Iterable[Record]:
        """One for each new step, the last few of many; `record` itself is the last."""
        reach = record.times.range()
        first = int(reach[0]) if reach else 0
        start = max(self._step + 1, record.step - self._look_back + 1, first)
        return [*(record.at(step) for step in range(start, record.step)), record]

    def _read(self, record: Record, wanted: Callable[[Rule], bool]) -> None:
        for rule in self._rules:
            if not wanted(rule):
                continue
            reading = _reading(rule, record, self._values)
            known = self._known.get(rule.id)
            if known is None or reading.state is known.reading.state or known.reading.state is State.NONE:
                self._known[rule.id] = _Steady(reading, reading.state)
                continue
            known.count = known.count + 1 if reading.state is known.next else 1
            known.next = reading.state
            if known.count >= rule.steady or reading.state is State.BROKEN:
                self._known[rule.id] = _Steady(reading, reading.state)

    def _finding(self, rule: Rule, muted: str) -> Finding:
        reading = self._known[rule.id].reading
        return Finding(rule, reading.state, reading, muted)


def _reading(rule: Rule, record: Record, values: Values) -> Reading:
    """What the rule says; one that fails is broken, never silent."""
    try:
        found = rule.check(record, values.get(rule.id, {}))
    except Exception as error:
        return Reading(State.BROKEN, says=clean(f"the rule failed: {type(error).__name__}: {error}", 300))
    return Reading(
        found.state,
        found.value,
        _safe(found.measured, 40),
        _safe(found.want, 40),
        _safe(found.says, 600),
        _safe(found.metric, 120),
        found.keys,
        found.title,
    )


def _safe(text: str, limit: int) -> str:
    """Cleaned. Nearly every text is of our own words and numbers, and cleaning all of them would cost most here."""
    return text if text.isascii() and text.isprintable() and len(text) <= limit else clean(text, limit)


def speaking(findings: Iterable[Finding]) -> list[Finding]:
    """Those that want to be heard, worst first."""
    return [finding for finding in findings if finding.speaks]


def counts(findings: Iterable[Finding]) -> dict[str, int]:
    """How many of each state, `muted` apart."""
    found = dict.fromkeys([*(state.value for state in State), "muted"], 0)
    for finding in findings:
        found["muted" if finding.muted else finding.state.value] += 1
    return found
