"""One run in one line."""

from __future__ import annotations

import pytest
from rich.segment import Segment

from rltui.look import default_look
from rltui.screens.runs_line import age, columns, head, line, reward, spark
from rltui.sources.folder import RunRow

LOOK = default_look()


def row(**more) -> RunRow:
    values = {"name": "guess-rl_0123456789abcdef", "path": "/runs/x", "job_id": "rl_0", "label": "guess"}
    return RunRow(**{**values, "state": "running", "step": 412, "steps": 2000, "reward": 0.41, **more})


def text(segments: list[Segment]) -> str:
    return "".join(segment.text for segment in segments)


@pytest.mark.parametrize("cells", [78, 90, 118, 160, 198])
@pytest.mark.parametrize(
    "shown",
    [
        row(spark=(0.1, 0.2), updated=5.0),
        row(problem="status.json is damaged", state="unreadable"),
        row(name="測試" * 60, reward=-1234.5),
        row(state="a new state we do not know", reward=float("nan"), step=None),
    ],
)
def test_every_line_fits_and_stands_under_its_columns(cells, shown):
    drawn = line(shown, columns(cells), LOOK, marked=False, now=65.0)
    assert Segment.get_line_length(drawn) <= cells
    names = text(head(cells, LOOK))
    if not shown.problem and shown.name.isascii():
        whole = text(drawn)
        assert whole[: names.index("step") + 4].rstrip().endswith("412/2000" if shown.step else "-")


def test_at_80_columns_state_name_step_and_reward_stand():
    shown = text(line(row(updated=5.0, spark=(1.0,)), columns(78), LOOK, marked=False, now=65.0))
    assert [word for word in ("running", "guess-rl_0123456789abcdef", "412/2000", "0.410") if word not in shown] == []
    assert "min" not in shown


def test_rewards_keep_their_point_in_one_column():
    assert [len(f"{reward(value):>8}".split(".")[0]) for value in (0.5, -12.25, 999.0)] == [4, 4, 4]
    assert reward(None).strip() == reward(float("inf")).strip() == "-"


def test_a_sparkline_runs_from_least_to_largest_and_leaves_gaps():
    bars = LOOK.bars
    assert spark((0.0, 0.5, 1.0), 10, bars) == bars[1] + bars[5] + bars[8]
    assert spark((1.0, None, float("nan"), 1.0), 10, bars) == bars[4] + bars[0] + bars[0] + bars[4]
    assert len(spark(tuple(range(60)), 16, bars)) == 16
    assert spark((), 16, bars) == ""


def test_ages_are_said_in_their_largest_unit():
    assert [age(s) for s in (-3, 59, 60, 7199, 86_400)] == ["0 s", "59 s", "1 min", "1 h", "1 d"]


@pytest.mark.parametrize(
    ("shown", "said"),
    [
        (row(state="failed", error="the task app is down", updated=5.0), "the task app is down"),
        (row(silent=True), "no sign of life"),
        (row(phase="training", eta_s=120.0), "training, 2 m"),
        (row(state="succeeded", host="node7", phase="done"), "node7"),
    ],
)
def test_the_last_column_says_what_is_wrong_else_what_it_does_else_where_it_was(shown, said):
    drawn = text(line(shown, columns(118), LOOK, marked=False, now=65.0))
    assert said in drawn and drawn.index(said) == text(head(118, LOOK)).index("cause")
