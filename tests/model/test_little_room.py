"""What is said where there is little room: no word is cut beside blank cells."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, cast

import pytest

from rltui.doctor.doctor import Finding
from rltui.doctor.rule import Reading, State
from rltui.doctor.rules import RULES
from rltui.look import default_look
from rltui.model.overview_view import PLANS
from rltui.screens.config.fields import GAP, MARK, NOTE_MIN, columns
from rltui.screens.monitor.episode_line import line
from rltui.screens.monitor.health import HealthRows


@dataclass
class Named:
    name: str
    key: str = ""


def test_a_finding_leaves_out_what_is_wanted_before_it_is_cut() -> None:
    finding = Finding(RULES[0], State.WATCH, Reading(State.WATCH, 0.46, "46 %", "< 30 %"))
    health, look = HealthRows(), default_look()
    health.update([finding])
    whole = 10 + len(f"{finding.rule.id} {finding.line}")
    assert "(want < 30 %)" in "".join(part.text for part in health.cells(0, whole, look))
    little = "".join(part.text for part in health.cells(0, whole - 1, look))
    assert "want" not in little and little.rstrip().endswith("46 %")


@pytest.mark.parametrize("width", range(36, 90))
def test_fields_have_a_note_that_says_something_or_none(width: int) -> None:
    place = columns(cast(Any, [Named("gradient_accumulation_steps")]), width, whole_keys=False)
    note = width - place.value_at - place.value - GAP
    assert note >= NOTE_MIN or MARK + place.name + GAP + place.value == width


@pytest.mark.parametrize("cells", range(50, 110))
def test_the_usual_reasons_for_an_end_are_whole(cells: int) -> None:
    row = {"iteration": 1, "seed": 1, "group": 1, "member": 1, "R": 0.5, "turns": 1, "excl": "zero_variance"}
    assert "zero_variance" in "".join(part.text for part in line(row, cells, default_look()))


def test_no_two_charts_begin_with_the_same_metric() -> None:
    """Before the first step there is an evaluation alone."""
    known = {"eval/reward_mean"}
    shown = [next((names for _, names in plan.sets if names[0][0] in known), ()) for plan in PLANS]
    assert sum(map(bool, shown)) == 1
