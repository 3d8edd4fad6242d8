"""What a rule is, and what it says of a record."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from enum import StrEnum
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from rltui.doctor.record import Record

STEADY = 3  # readings in a row that change a state


class State(StrEnum):
    """Worst first. `BROKEN`: the rule itself failed."""

    ACT = "act"
    BROKEN = "broken"
    WATCH = "watch"
    OK = "ok"
    NONE = "no data"


ORDER = {state: place for place, state in enumerate(State)}


@dataclass(frozen=True, slots=True)
class Reading:
    """What a rule finds at one moment.

    Attributes:
        value: what was measured, as a number; None: nothing, or no number.
        measured: the same in words, short: "46 %".
        want: the band, in words: "< 30 %".
        says: a sentence with what belongs to it; may quote names and texts of the run.
        title: of the signal, where it is another one than the rule's title names.
        metric: the series to look at, where it is another one than the rule's first.
        keys: what to change, where this finding knows better than the rule.
    """

    state: State
    value: float | None = None
    measured: str = ""
    want: str = ""
    says: str = ""
    metric: str = ""
    keys: tuple[str, ...] = ()
    title: str = ""


Bands = Mapping[str, float]  # of one rule, by name
Check = Callable[["Record", Bands], Reading]


@dataclass(frozen=True, slots=True)
class Rule:
    """One row of the Doctor.

    Attributes:
        title: what it looks at, in few words.
        cause: why that happens, in plain words.
        keys: of the config, what to change, most likely first.
        metrics: what it reads, the one to look at first.
        window: over what, in words.
        steady: readings in a row that change its state; 1: what it counts must never happen, or it measures a
            duration itself.
        by_step: whether a new step is what brings a new reading; else it is about the present.
    """

    id: str
    title: str
    cause: str
    keys: tuple[str, ...]
    check: Check
    metrics: tuple[str, ...] = ()
    window: str = ""
    steady: int = STEADY
    by_step: bool = True


def rule(
    id: str,
    title: str,
    cause: str,
    keys: tuple[str, ...],
    *,
    metrics: tuple[str, ...] = (),
    window: str = "",
    steady: int = STEADY,
    by_step: bool = True,
) -> Callable[[Check], Rule]:
    """Makes a Rule of its check."""

    def made(check: Check) -> Rule:
        return Rule(id, title, cause, keys, check, metrics, window, steady, by_step)

    return made


# What checks share


def none(why: str) -> Reading:
    """There is nothing to judge by."""
    return Reading(State.NONE, says=why)


def over(value: float, watch: float, act: float = float("inf")) -> State:
    """The state of what should stay below."""
    return State.ACT if value > act else State.WATCH if value > watch else State.OK


def under(value: float, watch: float, act: float = float("-inf")) -> State:
    """The state of what should stay above."""
    return State.ACT if value < act else State.WATCH if value < watch else State.OK


def worst(*readings: Reading | None) -> Reading:
    """The one that matters most, the first of equals. None: a part that does not apply."""
    found = [reading for reading in readings if reading is not None]
    return min(found, key=lambda reading: ORDER[reading.state]) if found else none("it was not recorded")


def percent(share: float) -> str:
    """'46 %', '3.1 %', '0.02 %'."""
    value = 100 * share
    size = abs(value)
    return f"{value:.0f} %" if size >= 10 or size == 0 else f"{value:.1f} %" if size >= 0.1 else f"{value:.2g} %"


def times(factor: float) -> str:
    """'1.7×', '12×'."""
    return f"{factor:.0f}×" if factor >= 10 else f"{factor:.1f}×"
